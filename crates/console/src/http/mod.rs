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

/// Who may come, and how.
#[derive(Clone, Debug)]
pub struct Access {
    /// Where the console listens.
    pub listen: SocketAddr,
    /// What opens it; none only on loopback.
    pub token: Option<Token>,
    /// How pages reach it through a proxy, such as `https://mail.example`: the root of a host.
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
    /// The public URL is none.
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

/// What a page is told of the console it is on.
#[derive(Clone, Debug)]
pub struct About {
    /// The stack.
    pub stack: String,
    /// Its region.
    pub region: String,
    /// Whether it runs on this machine.
    pub is_local: bool,
    /// Who runs the console.
    pub operator: String,
    /// Whether addresses of recipients are shown.
    pub shows_addresses: bool,
}

/// What tells the time; the console's pages outlive no clock of a task's own.
pub type ClockFn = Box<dyn Fn() -> EpochMillis + Send + Sync>;

/// What every handler has.
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

    /// Seconds since 1970.
    fn seconds(&self) -> u64 {
        (self.now)().as_millis() / 1_000
    }
}

/// All there is.
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
