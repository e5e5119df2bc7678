//! The poller: each invocation serves one window.

use std::cell::Cell;
use std::process::ExitCode;
use std::time::Duration;

use lambda_runtime::layers::TracingLayer;
use lambda_runtime::tower::util::MapResultLayer;
use lambda_runtime::{Diagnostic, LambdaEvent, Runtime, service_fn};
use serde_json::Value;
use tidegate_adapters::aws::{Clients, EventBus, SystemClock, SystemEntropy, TraceEndpoint};
use tidegate_adapters::redis::RedisBucket;
use tidegate_core::channel::Channel;
use tidegate_core::config::{Campaigns, ConfigError, LedgerKind, PollerConfig, SharedBucketConfig};
use tidegate_core::events::of_mails;
use tidegate_core::tick::Tick;
use tidegate_core::trace::WindowSpans;
use tidegate_delivery::bucketed::Bucketed;
use tidegate_delivery::poll::{PollError, Poller, WindowReport};
use tidegate_delivery::ports::{
    Clock as _, Environment, Events as _, Exclusions, Ledger, Mailer as _, Marks, Ports, Runs,
};
use tidegate_lambda::{
    LambdaFunction, begin_invocation, diagnostic, failed_metrics, failed_start, log_record,
    poller_metrics, publish, stack_name, start,
};

/// How long connections are opened before the first tick is taken. Lambda gives more processor time to the
/// start of an environment than to a window, and the claim, which has 300 ms, then finds an open connection.
/// The time is billed and delays the first window; a connection that is not open by then is left to the
/// first call that needs it.
const WARMING: Duration = Duration::from_millis(300);
/// The most connections opened at start, to SQS (one per queue) and to SES. Further ones to SES are opened
/// during the lead.
const MOST_WARMED: usize = 8;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    start::<PollerFunction>().await
}

struct PollerFunction(PollerConfig);

impl LambdaFunction for PollerFunction {
    fn from_variables(read: fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        PollerConfig::from_variables(read).map(Self)
    }

    fn ledger(&self) -> &LedgerKind {
        &self.0.ledger
    }

    fn channel(&self) -> Channel {
        self.0.rules.channel
    }

    async fn serve(
        self,
        clients: Clients,
        ledger: impl Ledger + Marks + Exclusions + Runs,
    ) -> ExitCode {
        let Self(config) = self;
        let clock = SystemClock::new();
        let failures = ledger.failures();
        let mailer = clients.mailer(&config, clock);
        let mailer = match config.shared_bucket.clone() {
            None => Bucketed::alone(mailer),
            Some(SharedBucketConfig { url, prefix, lost }) => {
                Bucketed::new(mailer, RedisBucket::new(url, prefix), lost)
            }
        };
        let ports = Ports::<(_, _, _, _, _, _, _)> {
            queues: clients.queues(),
            mailer,
            account: clients.account(
                config.rules.channel,
                &config.cap,
                &config.rules.texts.origins,
            ),
            ledger,
            clock,
            entropy: SystemEntropy,
            store: config.store.clone().map(|location| clients.store(location)),
        };
        let sources = match &config.campaigns {
            Campaigns::Listed(campaigns) => campaigns.len() + 2,
            Campaigns::Ledger => MOST_WARMED,
        };
        let connections = sources.min(MOST_WARMED);
        let warming = async {
            tokio::join!(
                ports.ledger.warm(1),
                ports.queues.warm(connections),
                ports.mailer.warm(connections),
            )
        };
        let _ = tokio::time::timeout(WARMING, warming).await;
        let programs = &Programs {
            bus: config.event_bus.as_ref().map(|name| clients.event_bus(name)),
            traces: config.traces.as_ref().map(|url| clients.traces(url)),
        };
        let poller = Poller::new(ports, config);
        let (poller, clock, failures, ends) = (&poller, &clock, &failures, &Cell::new(false));
        let handler = service_fn(|event: LambdaEvent<Value>| async move {
            let of = &event.context;
            begin_invocation(&of.request_id, &of.invoked_function_arn, of.xray_trace_id.as_deref());
            // On the heap, because the future of a window is large.
            let mut answer = Box::pin(handle(poller, event.payload)).await;
            let (at, ledger_failed) = (clock.wall(), failures.take());
            ends.set(answer.as_ref().is_ok_and(WindowReport::ends_environment));
            let metrics = match &answer {
                Ok(report) => poller_metrics(at, report, ledger_failed),
                Err(_) => failed_metrics(at, "poller", ledger_failed),
            };
            let record = answer.as_mut().ok().and_then(|report| report.record.take());
            // A window without metrics had no mail, and nothing that the next record does not tell.
            if let Some(mut record) = record.filter(|_| !metrics.is_empty()) {
                record.request = event.context.request_id;
                log_record(*record);
            }
            publish(metrics);
            if let Ok(report) = &mut answer {
                programs.tell(report).await;
            }
            answer
        });
        // An error after the answer was given ends the process before it asks for the next event. Lambda gives the next
        // process of the environment, or another environment, fresh credentials.
        let end = MapResultLayer::new(|answered: Result<(), lambda_runtime::Error>| {
            answered.and_then(|()| if ends.get() { Err("end".into()) } else { Ok(()) })
        });
        let runtime = Runtime::new(handler).layer(TracingLayer::new()).layer(end);
        match Box::pin(runtime.run()).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) if ends.get() => {
                tracing::warn!("environment ended: SES refuses its token, signature or clock");
                ExitCode::SUCCESS
            }
            Err(error) => failed_start(error.as_ref()),
        }
    }
}

/// Other programs that are told of a window, once its work is done.
struct Programs {
    bus: Option<EventBus>,
    traces: Option<TraceEndpoint>,
}

impl Programs {
    async fn tell(&self, report: &mut WindowReport) {
        let spans = report.spans.take().filter(WindowSpans::is_sampled);
        if let (Some(endpoint), Some(spans)) = (&self.traces, spans)
            && let Err(error) = endpoint.put(spans.to_otlp(&stack_name())).await
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "spans not put");
        }
        let Some(bus) = self.bus.as_ref().filter(|_| !report.fates.is_empty()) else { return };
        let events = of_mails(&stack_name(), report.fates.drain(..));
        if let Err(error) = bus.put(&events).await {
            tracing::error!(error = &error as &dyn std::error::Error, "events not put");
        }
    }
}

async fn handle<E: Environment>(
    poller: &Poller<E>,
    payload: Value,
) -> Result<WindowReport, Diagnostic> {
    let tick = Tick::from_value(&payload).map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "tick refused");
        diagnostic("InvalidTick", &error)
    })?;
    poller.serve(tick).await.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "window not served");
        let kind = match error {
            PollError::Ledger { .. } => "LedgerUnreachable",
            PollError::Quota { .. } => "QuotaUnknown",
        };
        diagnostic(kind, &error)
    })
}
