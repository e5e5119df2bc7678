use tokio::sync::watch;

/// Tells when the sandbox is asked to stop.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Asked as soon as the watched value is true.
    pub(super) fn when(stopped: watch::Receiver<bool>) -> Self {
        Self(stopped)
    }

    /// Returns once the sandbox is asked to stop.
    pub(crate) async fn asked(&self) {
        // An error means that the handle was dropped, which stops the sandbox, too.
        let _ = self.0.clone().wait_for(|stopped| *stopped).await;
    }
}
