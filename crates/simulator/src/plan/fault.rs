use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::outcome::Failure;
use tidegate_fakes::{Fault, Operation, Rule, failures};

use super::error::PlanError;

const ALLOWED: &str = "`throttle`, `5xx`, `outage`, `reset`, `lost-answer` or `rejected`, then any of `ratio=0.01`, `from=10m` and `to=1h`";

/// A duration such as `80ms`, `10m` or `1h 30m`, at most ten years.
pub(super) fn span(text: &str) -> Option<Duration> {
    let longest = Duration::from_hours(24 * 3_650);
    humantime::parse_duration(text.trim()).ok().filter(|span| *span <= longest)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum SendFault {
    /// SES refuses for the rate although the quota is respected (`TooManyRequestsException`).
    Throttle,
    #[strum(to_string = "5xx", serialize = "outage")]
    ServerError,
    /// The connection breaks before SES acts.
    Reset,
    /// SES accepts the mail and its answer is lost, so the mail is sent again.
    LostAnswer,
    /// SES refuses this mail for good.
    Rejected,
}

/// A fault that strikes a share of the sends during a span of time.
///
/// ```
/// use tidegate_simulator::plan::PlannedFault;
/// let fault: PlannedFault = "5xx,ratio=0.05,from=10m,to=1h".parse()?;
/// assert_eq!(fault.to_string(), "5xx,ratio=0.05,from=10m,to=1h");
/// assert!("5xx,ratio=2".parse::<PlannedFault>().is_err());
/// # Ok::<(), tidegate_simulator::plan::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedFault {
    pub kind: SendFault,
    /// The share of the sends that it strikes, 0 to 1.
    pub ratio: f64,
    /// When it begins, as a time after the start.
    pub from: Duration,
    /// When it ends, as a time after the start; `None` if it never does.
    pub to: Option<Duration>,
}

impl FromStr for PlannedFault {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let refused = || PlanError::Value {
            field: "fault".to_owned(),
            value: text.to_owned(),
            allowed: ALLOWED.to_owned(),
        };
        let mut members = text.split(',').map(str::trim);
        let kind = members.next().and_then(|kind| kind.parse().ok()).ok_or_else(refused)?;
        let mut fault = Self { kind, ratio: 1.0, from: Duration::ZERO, to: None };
        for member in members {
            match member.split_once('=').ok_or_else(refused)? {
                ("ratio", share) => fault.ratio = share.parse().map_err(|_| refused())?,
                ("from", at) => fault.from = span(at).ok_or_else(refused)?,
                ("to", at) => fault.to = Some(span(at).ok_or_else(refused)?),
                _ => return Err(refused()),
            }
        }
        let rising = fault.to.is_none_or(|to| fault.from < to);
        ((0.0..=1.0).contains(&fault.ratio) && rising).then_some(fault).ok_or_else(refused)
    }
}

impl fmt::Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        let shown = |span: Duration| humantime::format_duration(span).to_string().replace(' ', "");
        if self.ratio < 1.0 {
            write!(f, ",ratio={}", self.ratio)?;
        }
        if !self.from.is_zero() {
            write!(f, ",from={}", shown(self.from))?;
        }
        self.to.map_or(Ok(()), |to| write!(f, ",to={}", shown(to)))
    }
}

impl PlannedFault {
    /// The fault plan's rule for it, with the start of the forecast at `start`.
    pub(super) fn rule(&self, start: Timestamp) -> Rule<Failure> {
        let fault = match self.kind {
            SendFault::Throttle => Fault::Before(failures::rate_exceeded()),
            SendFault::ServerError => Fault::Before(failures::server_error()),
            SendFault::Reset => Fault::Before(failures::answer_lost()),
            SendFault::LostAnswer => Fault::After(failures::answer_lost()),
            SendFault::Rejected => Fault::Before(failures::rejected()),
        };
        let end = self.to.map_or(Timestamp::from_nanos(u64::MAX), |to| start + to);
        let rule = Rule::new(fault).on(Operation::Mail).chance(self.ratio);
        rule.during(start + self.from..end)
    }

    /// Whether it is active at this time after the start.
    pub(super) fn strikes_at(&self, after: Duration) -> bool {
        self.ratio > 0.0 && after >= self.from && self.to.is_none_or(|to| after < to)
    }
}
