use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;
use tidegate_delivery::ports::PortError;
use tidegate_operator::dead::{
    InvalidCorrection, LetterDetails, LetterReport, ReviewGroup, ReviewRefusal,
};
use tidegate_operator::steer::{Author, SteerAction, SteerError, SteerReport};
use tidegate_operator::why::{Explanation, MailQuery};
use tokio::sync::{mpsc, oneshot};

use super::dead_letters::DeadLetterView;
use crate::figures::{Curves, LongSpan};

/// The channel through which a job's answer returns to the request that asked.
pub type AnswerSender<T> = oneshot::Sender<Result<T, JobError>>;

/// The dead letters that a review is about, and what to do with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReviewRequest {
    #[serde(deserialize_with = "unless_blank")]
    pub code: Option<String>,
    #[serde(deserialize_with = "unless_blank")]
    pub campaign: Option<String>,
    #[serde(deserialize_with = "unless_blank")]
    pub id: Option<String>,
    /// Another body for the letter whose message id is `id`; addresses in it may be masked as they are shown.
    pub body: Option<String>,
    /// Include mails of which it is not known whether they were sent.
    pub include_unknown: bool,
    /// Letters of mails that were sent are deleted.
    pub drop_sent: bool,
}

/// An empty field of a form filters nothing.
fn unless_blank<'de, D: Deserializer<'de>>(text: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(text)?;
    Ok(text.filter(|text| !text.trim().is_empty()))
}

/// The result of a review, as JSON for the page.
#[derive(Clone, Debug, Serialize)]
pub struct ReviewSummary {
    /// The name by which it can be replayed.
    pub review: String,
    /// Seconds for which the review can be replayed.
    pub expires_s: u64,
    /// The filter in words, such as "code `MessageRejected`".
    pub filter: String,
    /// Whether deduplication is on, so that its marks tell which mails were sent.
    pub guarded: bool,
    pub whole: bool,
    /// The letters, by campaign and code.
    pub groups: Vec<ReviewGroup>,
    /// Letters that will not be sent, counted by reason.
    pub refusals: Vec<ReviewRefusal>,
    pub to_send: u64,
    /// Letters that would be deleted, since their mails were sent.
    pub to_drop: u64,
    /// Mails a second, unless the request for the replay names another rate.
    pub per_second: f64,
    /// Estimated duration in seconds.
    pub takes_s: u64,
}

/// A replay that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayRequest {
    /// The name of the review to replay.
    pub review: String,
    pub author: Author,
    /// Mails a second; none for what the review said.
    pub per_second: Option<f64>,
}

/// Requests from pages, each with the channel for its answer.
#[derive(Debug)]
pub enum EngineJob {
    /// Pause, resume, lift, weights or cap.
    Steer(SteerAction, Author, AnswerSender<SteerReport>),
    /// Explain where a mail is.
    Why(MailQuery, AnswerSender<Explanation>),
    /// The curves of a long span.
    Curves(LongSpan, AnswerSender<Curves>),
    /// To read the dead letters now.
    ReadDead(AnswerSender<DeadLetterView>),
    /// All that is known of the letters with this id.
    ShowLetter(String, AnswerSender<Vec<LetterDetails>>),
    /// Delete the letter with this id for good.
    Discard(String, Author, AnswerSender<LetterReport>),
    /// Count what a replay of some dead letters would do, without sending.
    Review(ReviewRequest, AnswerSender<ReviewSummary>),
    /// To do it: answered when it begins, with how many mails it sends.
    Replay(ReplayRequest, AnswerSender<u64>),
    /// To end a replay before its time.
    StopReplay(AnswerSender<()>),
}

/// The reasons why a job is not done.
#[derive(Debug, Error)]
pub enum JobError {
    #[error(transparent)]
    Steer(#[from] SteerError),
    /// The review has expired, was used, or never was.
    #[error(
        "the review {0} is not known any more: it is older than ten minutes, or was gone through with; review again"
    )]
    NoReview(String),
    #[error("there is no dead letter {0} any more: read the letters again")]
    NoLetter(String),
    #[error(transparent)]
    Correction(#[from] InvalidCorrection),
    #[error("a replay is under way: one goes at a time")]
    Replaying,
    #[error(transparent)]
    Replay(#[from] tidegate_operator::dead::LetterError),
    #[error(transparent)]
    Service(#[from] PortError),
    /// The queue of jobs is full, which means that the stack does not answer.
    #[error("the console waits for the stack to answer: try again in a few seconds")]
    Busy,
    #[error("the console is ending")]
    Ending,
}

/// The sending side of the queue of jobs; clones feed the same engine.
#[derive(Clone, Debug)]
pub struct Jobs(pub(super) mpsc::Sender<EngineJob>);

impl Jobs {
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
}
