//! The HTTP side: pages, streams, actions and metrics, and what each must show before it gets them.

mod access_control;
mod actions;
mod assets;
mod auth;
mod error_response;
mod metrics;
mod serve;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use auth::{Auth, Credential};
use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use thiserror::Error;
use tidegate_core::channel::Channel;
use tidegate_core::identity::EpochMillis;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::RequestBodyDeadlineLayer;

use crate::engine::EngineHandle;

pub use auth::{InvalidToken, InvalidTokens, Role, Token, TokenHolder, Tokens};
pub use serve::{bind, serve};

/// An action is a few lines.
const MOST_BYTES: usize = 64 * 1024;
/// A corrected mail: SQS takes 1 MiB, and JSON in JSON is up to twice as long.
const MOST_LETTER: usize = 2 * 1_024 * 1_024;
/// Longest time for a request's body to arrive.
const BODY: Duration = Duration::from_secs(10);

/// Who may use the console, and under which addresses it is reached.
#[derive(Clone, Debug)]
pub struct Access {
    pub listen: SocketAddr,
    /// The secrets of which requests must show one; none is allowed on loopback only.
    pub tokens: Tokens,
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
        if self.tokens.is_empty() && !self.listen.ip().is_loopback() {
            return Err(AccessError::NoToken(self.listen));
        }
        match &self.public_url {
            Some(url) if access_control::root(url).is_none() => {
                Err(AccessError::PublicUrl(url.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Whether browsers reach the console by https.
    pub fn is_https(&self) -> bool {
        let origin = self.public_url.as_deref().and_then(access_control::origin);
        origin.is_some_and(|origin| origin.starts_with("https://"))
    }

    fn is_trusted(&self, ip: IpAddr) -> bool {
        self.trusted_proxies.contains(&ip.to_canonical())
    }
}

/// Facts about the console that every page shows.
#[derive(Clone, Debug)]
pub struct About {
    pub stack: String,
    pub region: String,
    pub is_local: bool,
    /// The channel that the stack sends on.
    pub channel: Channel,
    /// SES's price of a recipient, US dollars; `None` for the usual one.
    pub ses_price: Option<f64>,
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

/// The state of the handlers.
type Shared = State<Arc<App>>;

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
        let auth = Auth::new(access.tokens.clone(), access.listen.port());
        Ok(Arc::new(Self { shared, access, about, auth, now }))
    }

    fn seconds(&self) -> u64 {
        (self.now)().as_millis() / 1_000
    }

    /// Whether a credential that let somebody in still does: a session may have ended.
    fn is_good(&self, credential: &Credential) -> bool {
        match credential {
            Credential::Cookie { session, .. } => {
                self.auth.session_holder(session, self.seconds()).is_some()
            }
            Credential::Here | Credential::Bearer { .. } => true,
        }
    }
}

/// All routes, those that need a login behind the middleware `require_credential`.
pub fn router(app: &Arc<App>) -> Router {
    let app = Arc::clone(app);
    let acting = Router::new()
        .route("/api/steer", post(actions::steer))
        .route("/api/dead/discard", post(actions::discard))
        .route("/api/dead/review", post(actions::review).layer(DefaultBodyLimit::max(MOST_LETTER)))
        .route("/api/dead/replay", post(actions::replay))
        .route("/api/dead/stop", post(actions::stop_replay))
        .route_layer(from_fn_with_state(Arc::clone(&app), access_control::require_act));
    let guarded = Router::new()
        .route("/", get(|headers: HeaderMap| assets::page("index.html", headers)))
        .route("/metrics", get(metrics::metrics))
        .route("/api/session", get(access_control::session))
        .route("/api/events", get(serve::events))
        .route("/api/history", get(actions::history))
        .route("/api/changes", get(actions::changes))
        .route("/api/why", post(actions::why))
        .route("/api/dead/read", post(actions::read_dead))
        .route("/api/dead/show", post(actions::show_letter))
        .merge(acting)
        .route_layer(from_fn_with_state(Arc::clone(&app), access_control::require_credential));
    let logins = Router::new()
        .route("/api/login", post(access_control::login))
        .route("/api/logout", post(access_control::logout))
        .route_layer(from_fn_with_state(Arc::clone(&app), access_control::require_same_origin));
    let all = Router::new()
        .route("/login", get(|headers: HeaderMap| assets::page("login.html", headers)))
        .route("/assets/{version}/{*file}", get(assets::file))
        .merge(guarded)
        .merge(logins)
        .fallback(error_response::not_found)
        .method_not_allowed_fallback(error_response::method_not_allowed)
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .layer(RequestBodyDeadlineLayer::new(BODY))
        .layer(from_fn_with_state(Arc::clone(&app), access_control::screen_requests));
    let with_headers = access_control::HEADERS.into_iter().fold(all, |all, (name, value)| {
        let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
        all.layer(SetResponseHeaderLayer::if_not_present(name, value))
    });
    with_headers.with_state(app)
}

#[cfg(test)]
mod tests;
