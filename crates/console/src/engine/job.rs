use serde::Serialize;
use thiserror::Error;
use tidegate_delivery::ports::PortError;
use tidegate_operate::dead::{ReviewGroup, ReviewRefusal};
use tidegate_operate::steer::{Author, SteerAction, SteerError, SteerReport};
use tidegate_operate::why::{Explanation, MailQuery};
use tokio::sync::{mpsc, oneshot};

use super::dead_letters::DeadLetterView;

/// Where an answer goes.
pub type AnswerSender<T> = oneshot::Sender<Result<T, JobError>>;

/// Which letters a replay would be of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewRequest {
    /// Only those of this code.
    pub code: Option<String>,
    /// Only those of this campaign.
    pub campaign: Option<String>,
    /// Only that of this mail.
    pub id: Option<String>,
    /// Also mails of which nobody knows whether they were sent.
    pub include_unknown: bool,
    /// Letters of mails that were sent are deleted.
    pub drop_sent: bool,
}

/// What a replay would do.
#[derive(Clone, Debug, Serialize)]
pub struct ReviewSummary {
    /// Under which name it can be gone through with.
    pub review: String,
    /// For how long.
    pub expires_s: u64,
    /// Which letters, in words.
    pub filter: String,
    /// Whether deduplication was asked what was sent.
    pub guarded: bool,
    /// Whether every letter was read.
    pub whole: bool,
    /// The letters, by campaign and code.
    pub groups: Vec<ReviewGroup>,
    /// Why some would not be sent.
    pub refusals: Vec<ReviewRefusal>,
    /// Mails that would be sent.
    pub to_send: u64,
    /// Letters that would be deleted, since their mails were sent.
    pub to_drop: u64,
    /// How fast, mails a second.
    pub per_second: f64,
    /// For how long, seconds.
    pub takes_s: u64,
}

/// A replay that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayRequest {
    /// What was reviewed.
    pub review: String,
    /// Who, and why.
    pub author: Author,
    /// Mails a second; none for what the review said.
    pub per_second: Option<f64>,
}

/// What pages ask for.
#[derive(Debug)]
pub enum EngineJob {
    /// To change something.
    Steer(SteerAction, Author, AnswerSender<SteerReport>),
    /// Where a mail is.
    Why(MailQuery, AnswerSender<Explanation>),
    /// To read the dead letters now.
    ReadDead(AnswerSender<DeadLetterView>),
    /// What a replay would do.
    Review(ReviewRequest, AnswerSender<ReviewSummary>),
    /// To do it: answered when it begins, with how many mails it sends.
    Replay(ReplayRequest, AnswerSender<u64>),
    /// To end a replay before its time.
    StopReplay(oneshot::Sender<()>),
}

/// Why a job was not done.
#[derive(Debug, Error)]
pub enum JobError {
    /// It cannot be changed so.
    #[error(transparent)]
    Steer(#[from] SteerError),
    /// What was reviewed is not known any more.
    #[error(
        "the review {0} is not known any more: it is older than ten minutes, or was gone through with; review again"
    )]
    NoReview(String),
    /// A replay is under way.
    #[error("a replay is under way: one goes at a time")]
    Replaying,
    /// A replay did not begin.
    #[error(transparent)]
    Replay(#[from] tidegate_operate::dead::ReplayError),
    /// A service did not answer.
    #[error(transparent)]
    Service(#[from] PortError),
    /// Too many jobs wait.
    #[error("the console waits for the stack to answer: try again in a few seconds")]
    Busy,
    /// The console is ending.
    #[error("the console is ending")]
    Ending,
}

/// Where jobs are handed in.
#[derive(Clone, Debug)]
pub struct Jobs(mpsc::Sender<EngineJob>);

impl Jobs {
    pub(super) const fn new(sender: mpsc::Sender<EngineJob>) -> Self {
        Self(sender)
    }

    /// Hands in the job that is made around its answer's way, and waits for the answer.
    ///
    /// # Errors
    /// [`JobError`].
    pub async fn ask<T>(
        &self,
        job: impl FnOnce(AnswerSender<T>) -> EngineJob,
    ) -> Result<T, JobError> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(job(answer)).map_err(|_| JobError::Busy)?;
        answered.await.map_err(|_| JobError::Ending)?
    }

    /// Ends a replay that is under way.
    ///
    /// # Errors
    /// [`JobError`].
    pub async fn stop_replay(&self) -> Result<(), JobError> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(EngineJob::StopReplay(answer)).map_err(|_| JobError::Busy)?;
        answered.await.map_err(|_| JobError::Ending)
    }
}
