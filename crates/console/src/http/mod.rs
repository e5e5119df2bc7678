//! The HTTP side: pages, streams, actions and metrics, and what each must show before it gets them.

mod access_control;
mod actions;
mod assets;
mod auth;
mod client;
mod error_response;
mod events;
mod metrics;
mod serve;
mod session;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use axum::{Router, middleware};
use thiserror::Error;
use tidegate_core::identity::EpochMillis;

pub use auth::{InvalidToken, Token};
pub use serve::{bind, serve};

use crate::engine::EngineHandle;
use auth::Auth;

/// An action is a few lines.
const MOST_BYTES: usize = 64 * 1024;

/// Who may use the console, and under which addresses it is reached.
#[derive(Clone, Debug)]
pub struct Access {
    pub listen: SocketAddr,
    /// The secret that requests must show; none is allowed on loopback only.
    pub token: Option<Token>,
    /// The console's address behind a proxy, such as `https://mail.example`: a host without a path.
    pub public_url: Option<String>,
    /// Proxies whose word on a client's address counts.
    pub trusted_proxies: Vec<IpAddr>,
}

/// Access that would let anybody in.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum AccessError {
    /// Others can reach it, and nothing is asked of them.
    #[error("{0} can be reached from other machines: a console there needs a token")]
    NoToken(SocketAddr),
    /// It is not http or https, or it has a path.
    #[error(
        "the public URL is {0:?}; allowed is http:// or https:// and a host, without a path, such as https://mail.example"
    )]
    PublicUrl(String),
}

impl Access {
    /// Says what is wrong with it.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn check(&self) -> Result<(), AccessError> {
        if self.token.is_none() && !self.listen.ip().is_loopback() {
            return Err(AccessError::NoToken(self.listen));
        }
        match &self.public_url {
            Some(url) if client::root(url).is_none() => Err(AccessError::PublicUrl(url.clone())),
            _ => Ok(()),
        }
    }
}

/// Facts about the console that every page shows.
#[derive(Clone, Debug)]
pub struct About {
    pub stack: String,
    pub region: String,
    pub is_local: bool,
    pub operator: String,
    pub shows_addresses: bool,
}

/// A clock that handlers may call from any task.
pub type ClockFn = Box<dyn Fn() -> EpochMillis + Send + Sync>;

/// The state that all handlers share.
pub struct App {
    shared: EngineHandle,
    access: Access,
    about: About,
    auth: Auth,
    now: ClockFn,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("about", &self.about).finish_non_exhaustive()
    }
}

impl App {
    /// A console of `shared`.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn new(
        shared: EngineHandle,
        access: Access,
        about: About,
        now: ClockFn,
    ) -> Result<Arc<Self>, AccessError> {
        access.check()?;
        let auth = Auth::new(access.token.clone(), access.listen.port());
        Ok(Arc::new(Self { shared, access, about, auth, now }))
    }

    fn seconds(&self) -> u64 {
        (self.now)().as_millis() / 1_000
    }
}

/// All routes, those that need a login behind the middleware `require_credential`.
pub fn router(app: &Arc<App>) -> Router {
    let guarded = Router::new()
        .route("/", get(assets::index))
        .route("/metrics", get(metrics::metrics))
        .route("/api/session", get(session::session))
        .route("/api/events", get(events::events))
        .route("/api/steer", post(actions::steer))
        .route("/api/why", post(actions::why))
        .route("/api/dead/read", post(actions::read_dead))
        .route("/api/dead/review", post(actions::review))
        .route("/api/dead/replay", post(actions::replay))
        .route("/api/dead/stop", post(actions::stop_replay))
        .route_layer(middleware::from_fn_with_state(
            Arc::clone(app),
            access_control::require_credential,
        ));
    let open = Router::new()
        .route("/login", get(assets::login))
        .route("/assets/{*file}", get(assets::file))
        .route("/api/login", post(session::login))
        .route("/api/logout", post(session::logout));
    guarded
        .merge(open)
        .fallback(error_response::not_found)
        .method_not_allowed_fallback(error_response::method_not_allowed)
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .layer(middleware::from_fn_with_state(Arc::clone(app), access_control::screen_requests))
        .with_state(Arc::clone(app))
}

#[cfg(test)]
mod tests;
