use tidegate_core::Timestamp;
use tidegate_delivery::ports::{Announce, PortError};

use crate::clock::Universe;
use crate::faults::{FaultPlan, Faults, Operation};
use crate::shared::SharedState;

/// A topic in memory that keeps what was told. A clone is the same.
#[derive(Clone, Debug)]
pub struct MemoryTopic {
    universe: Universe,
    told: SharedState<Vec<(Timestamp, String)>>,
    faults: Faults,
}

impl MemoryTopic {
    pub fn new(universe: Universe) -> Self {
        Self { universe, told: SharedState::new(Vec::new()), faults: Faults::default() }
    }

    /// A handle on the same topic whose calls fail as `plan` says.
    pub fn with_faults(self, plan: &FaultPlan) -> Self {
        Self { faults: plan.into(), ..self }
    }

    /// The subjects told so far, with the true time of each.
    pub fn told(&self) -> Vec<(Timestamp, String)> {
        self.told.with(|told| told.clone())
    }
}

impl Announce for MemoryTopic {
    async fn announce(&self, subject: &str, _: &str) -> Result<(), PortError> {
        assert!(subject.len() <= 100 && subject.is_ascii(), "SNS refuses {subject:?}");
        let act = async {
            let at = self.universe.now();
            self.told.with(|told| told.push((at, subject.to_owned())));
            Ok(())
        };
        self.faults.call(Operation::Announce, "topic", act).await
    }
}
