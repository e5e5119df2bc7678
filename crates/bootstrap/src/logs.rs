use std::str::FromStr as _;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// What counts where `RUST_LOG` says nothing, or nothing that can be read.
const DEFAULT: LevelFilter = LevelFilter::INFO;

/// Logs as JSON lines on standard output, by `RUST_LOG` (default `info`; `target=level` pairs as
/// everywhere); libraries' own at `warn` unless it names them.
pub fn init_logs() {
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
