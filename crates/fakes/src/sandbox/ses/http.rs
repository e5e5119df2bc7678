//! The routes.

mod answer;
mod control;
mod ses;
mod suppression;
mod tenant;
mod texts;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

use super::state::SesState;
use crate::sandbox::ses::request::MOST_BYTES;

pub(super) fn router(state: Arc<SesState>) -> Router {
    Router::new()
        .route("/v2/email/outbound-emails", post(ses::send_email))
        .route("/v2/email/account", get(ses::get_account))
        .route("/v2/email/identities/{identity}", get(ses::get_email_identity))
        .route("/v2/email/configuration-sets/{name}", get(ses::get_configuration_set))
        .route("/v2/email/suppression/addresses", get(suppression::list).put(suppression::put))
        .route(
            "/v2/email/suppression/addresses/{address}",
            get(suppression::find).delete(suppression::delete),
        )
        .route("/v2/email/templates/{name}/render", post(ses::render))
        .route("/v2/email/tenants/get", post(tenant::get))
        .route("/v2/email/tenants/resources/list", post(tenant::resources))
        .route("/", get(control::page).post(texts::call))
        .route("/_sandbox/config", get(control::config).patch(control::change))
        .route("/_sandbox/stats", get(control::stats))
        .route("/_sandbox/mails", get(control::mails).delete(control::clear))
        .route("/_sandbox/mails/{seq}", get(control::mail))
        .fallback(ses::unknown)
        .method_not_allowed_fallback(ses::unknown)
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .with_state(state)
}
