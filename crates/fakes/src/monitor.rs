use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_delivery::ports::{Monitor, MonitorReport, PastRates, PortError};

use crate::faults::{FaultPlan, Faults, Operation};
use crate::shared::SharedState;

/// A monitoring service in memory that reports what it was told, and knows no past. A clone is the same.
#[derive(Clone, Debug, Default)]
pub struct MemoryMonitor {
    report: SharedState<MonitorReport>,
    faults: Faults,
}

impl MemoryMonitor {
    /// A handle on the same service whose calls fail as `plan` says.
    pub fn with_faults(self, plan: &FaultPlan) -> Self {
        Self { faults: plan.into(), ..self }
    }

    pub fn set_report(&self, report: MonitorReport) {
        self.report.with(|told| *told = report);
    }
}

impl Monitor for MemoryMonitor {
    async fn report(&self, _: Timestamp) -> Result<MonitorReport, PortError> {
        let act = async { Ok(self.report.with(|told| told.clone())) };
        self.faults.call(Operation::Monitor, "monitor", act).await
    }

    async fn past(
        &self,
        _: &[String],
        _: Timestamp,
        _: Timestamp,
        step: Duration,
    ) -> Result<Vec<PastRates>, PortError> {
        assert!(
            step.as_secs() > 0 && step.as_secs().is_multiple_of(60),
            "CloudWatch refuses {step:?}"
        );
        self.faults.call(Operation::Monitor, "monitor", async { Ok(Vec::new()) }).await
    }
}
