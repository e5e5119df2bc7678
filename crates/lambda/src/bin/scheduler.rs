//! The scheduler: each invocation issues the ticks of one minute.

use std::process::ExitCode;

use lambda_runtime::{Diagnostic, LambdaEvent, run, service_fn};
use serde_json::Value;
use tidegate_adapters::aws::{Clients, SystemClock, SystemEntropy};
use tidegate_core::channel::Channel;
use tidegate_core::config::{ConfigError, LedgerKind, SchedulerConfig};
use tidegate_core::idle::is_wake;
use tidegate_delivery::back_pressure::{BackPressure, BackPressureMemory};
use tidegate_delivery::incidents::{IncidentMemory, Listeners, tell, tell_finished};
use tidegate_delivery::ports::{Clock as _, Exclusions, Ledger, Marks, Runs};
use tidegate_delivery::schedule::minute::SumsMemory;
use tidegate_delivery::schedule::refill::{Refill, RefillMemory};
use tidegate_delivery::schedule::{self, SchedulePorts, minute};
use tidegate_lambda::{
    LambdaFunction, begin_invocation, diagnostic, failed_metrics, failed_start, publish,
    scheduler_metrics, stack_name, start,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    start::<SchedulerFunction>().await
}

struct SchedulerFunction(SchedulerConfig);

impl LambdaFunction for SchedulerFunction {
    fn from_variables(read: fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        SchedulerConfig::from_variables(read).map(Self)
    }

    fn ledger(&self) -> &LedgerKind {
        &self.0.ledger
    }

    fn channel(&self) -> Channel {
        self.0.channel
    }

    async fn serve(
        self,
        clients: Clients,
        ledger: impl Ledger + Marks + Exclusions + Runs,
    ) -> ExitCode {
        let Self(config) = self;
        let clock = SystemClock::new();
        let account = clients.account(config.channel, &config.cap, &config.origins);
        let invoke = clients.invoke(config.poller_function.as_str());
        let queues = clients.queues();
        let failures = ledger.failures();
        let store = config.store.clone().map(|location| clients.store(location));
        let gauge = BackPressureMemory::default();
        let topic = config.alarm_topic.as_ref().map(|arn| clients.topic(arn));
        let bus = config.event_bus.as_ref().map(|name| clients.event_bus(name));
        let incidents = IncidentMemory::default();
        let parts = (&config, &clock, &account, &ledger, &invoke, &queues);
        let failures = &failures;
        let (store, gauge) = (store.as_ref(), &gauge);
        let refills = &RefillMemory::default();
        let stack = stack_name();
        let listeners = &Listeners { stack: &stack, topic: topic.as_ref(), bus: bus.as_ref() };
        let incidents = &incidents;
        let sums = &SumsMemory::default();
        let handler = service_fn(|event: LambdaEvent<Value>| async move {
            let of = &event.context;
            begin_invocation(&of.request_id, &of.invoked_function_arn, of.xray_trace_id.as_deref());
            let woken = is_wake(&event.payload);
            let (config, clock, account, ledger, invoke, queues) = parts;
            let back_pressure = BackPressure { config, queues, gauge };
            let entropy = &SystemEntropy;
            let refill = Refill { store, queues, entropy, memory: refills };
            // On the heap, because the future of a minute is large.
            let directory = queues;
            let ports = SchedulePorts { clock, account, ledger, invoke, directory, queues };
            let ticks = |before| Box::pin(schedule::run(config, woken, before, ports));
            let reading = config.feedback.as_ref();
            let (report, minute) =
                Box::pin(minute::run(ticks, reading, back_pressure, refill, sums, clock, ledger))
                    .await;
            tell(listeners, incidents, report.as_ref().ok(), &minute, clock, ledger).await;
            if let (Some(known), Some(now)) = (&config.back_pressure, &minute.standing) {
                tell_finished(listeners, &known.campaigns, now, queues, clock, ledger).await;
            }
            let ledger_failed = failures.take();
            let report = report.map_err(|error| {
                tracing::error!(error = &error as &dyn std::error::Error, "no ticks");
                publish(failed_metrics(clock.wall(), "scheduler", ledger_failed));
                diagnostic("QuotaUnknown", &error)
            })?;
            tracing::info!(ticks = report.ticks, failed = report.ticks_failed, "ticks issued");
            publish(scheduler_metrics(clock.wall(), &report, &minute, ledger_failed));
            Ok::<_, Diagnostic>(report)
        });
        match Box::pin(run(handler)).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed_start(error.as_ref()),
        }
    }
}
