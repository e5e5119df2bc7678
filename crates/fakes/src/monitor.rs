use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_delivery::ports::{Monitor, MonitorReport, PastRates, PortError};

use crate::faults::{FaultPlan, Faults, Operation};
use crate::shared::SharedState;

#[derive(Clone, Debug, Default)]
struct MonitorState {
    report: MonitorReport,
    past: Vec<PastRates>,
}

/// A monitoring service in memory that knows what it was told. A clone is the same.
#[derive(Clone, Debug, Default)]
pub struct MemoryMonitor {
    state: SharedState<MonitorState>,
    faults: Faults,
}

impl MemoryMonitor {
    /// A handle on the same service whose calls fail as `plan` says.
    pub fn with_faults(self, plan: &FaultPlan) -> Self {
        Self { faults: plan.into(), ..self }
    }

    pub fn set_report(&self, report: MonitorReport) {
        self.state.with(|state| state.report = report);
    }

    pub fn set_past(&self, past: Vec<PastRates>) {
        self.state.with(|state| state.past = past);
    }
}

impl Monitor for MemoryMonitor {
    async fn report(&self, _: Timestamp) -> Result<MonitorReport, PortError> {
        let act = async { Ok(self.state.with(|state| state.report.clone())) };
        self.faults.call(Operation::Monitor, "monitor", act).await
    }

    async fn past(
        &self,
        campaigns: &[String],
        from: Timestamp,
        to: Timestamp,
        step: Duration,
    ) -> Result<Vec<PastRates>, PortError> {
        assert!(
            step.as_secs() > 0 && step.as_secs().is_multiple_of(60),
            "CloudWatch refuses {step:?}"
        );
        let act = async {
            let mut past = self.state.with(|state| state.past.clone());
            past.retain(|rates| from < rates.until && rates.until <= to);
            for rates in &mut past {
                rates.campaigns.retain(|name, _| campaigns.contains(name));
            }
            Ok(past)
        };
        self.faults.call(Operation::Monitor, "monitor", act).await
    }
}
