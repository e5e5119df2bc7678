use std::str::FromStr as _;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The level if `RUST_LOG` is missing or cannot be parsed.
const DEFAULT: LevelFilter = LevelFilter::INFO;

/// Logs JSON lines to standard output. `RUST_LOG` sets the levels: one level, or `target=level` pairs; the
/// default is `info`. Libraries log at `warn` unless `RUST_LOG` names them.
pub(crate) fn init_logs() {
    let wanted = std::env::var("RUST_LOG").ok().and_then(|text| Targets::from_str(&text).ok());
    let filter = wanted.unwrap_or_else(|| {
        let libraries =
            ["aws_config", "aws_smithy_runtime", "hyper", "hyper_util", "lambda_runtime"];
        libraries.into_iter().fold(Targets::new().with_default(DEFAULT), |targets, library| {
            targets.with_target(library, LevelFilter::WARN)
        })
    });
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_target(false);
    tracing_subscriber::registry().with(lines).with(filter).init();
}
