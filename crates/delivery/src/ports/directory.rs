use std::collections::BTreeMap;
use std::future::Future;

use super::{PortError, QueueUrl};

/// Finds queues by name prefix, and reads their tags.
pub trait Directory {
    /// Lists the queues whose names begin with `prefix`, each once, in any order. SQS's list is eventually
    /// consistent: a queue may appear up to a minute after it was deleted, and be missing for a second after
    /// it was created.
    ///
    /// # Errors
    /// [`PortError`] if SQS does not answer; a partial list is never returned.
    fn queues(&self, prefix: &str) -> impl Future<Output = Result<Vec<QueueUrl>, PortError>>;

    /// Reads the tags of `queue`, as name and value.
    ///
    /// # Errors
    /// [`PortError`] if SQS does not answer; its kind is [`NotFound`](super::FailureKind::NotFound) if the
    /// queue does not exist.
    fn tags(
        &self,
        queue: &QueueUrl,
    ) -> impl Future<Output = Result<BTreeMap<String, String>, PortError>>;
}
