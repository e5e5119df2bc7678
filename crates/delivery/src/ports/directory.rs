use std::collections::BTreeMap;
use std::future::Future;

use super::{PortError, QueueUrl};

/// Which queues there are, and how they are tagged.
pub trait Directory {
    /// The queues whose names begin with `prefix`, each once, in any order. SQS may still name one that
    /// was deleted within the last minute, and not yet one that was made within the last second.
    ///
    /// # Errors
    /// [`PortError`]; never a part of the list.
    fn queues(&self, prefix: &str) -> impl Future<Output = Result<Vec<QueueUrl>, PortError>>;

    /// The tags of `queue`.
    ///
    /// # Errors
    /// [`PortError`]; [`NotFound`](super::FailureKind::NotFound) where the queue is not there.
    fn tags(
        &self,
        queue: &QueueUrl,
    ) -> impl Future<Output = Result<BTreeMap<String, String>, PortError>>;
}
