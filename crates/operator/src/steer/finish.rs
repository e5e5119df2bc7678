use tidegate_core::identity::EpochMillis;
use tidegate_core::weight_rule::{FinishBy, Remainder};

use super::SteerError;
use crate::status::Status;

/// Checks that the campaign can finish in time, as far as the status tells: with the mail that waits now, at the
/// rate in force now, beside the campaigns that have mail now.
///
/// # Errors
/// [`SteerError::TooLate`] with the time at which it would end.
pub fn check_finish(status: &Status, campaign: &str, finish: &FinishBy) -> Result<(), SteerError> {
    let of = |name: &str| status.campaigns.iter().find(|known| known.name == name);
    let (Some(own), Some(per_second)) = (of(campaign), status.quota.in_force) else {
        return Ok(());
    };
    let others = status
        .campaigns
        .iter()
        .filter(|other| other.name != campaign && !other.held && other.backlog.all() > 0);
    let others = others.map(|other| u64::from(other.weight)).sum();
    let waiting = crate::status::as_f64(own.backlog.all());
    let of = Remainder { waiting, per_second, others, now: status.at.into() };
    let ends_at = EpochMillis::from(finish.earliest(of));
    if ends_at <= finish.finish_by {
        return Ok(());
    }
    let (by, ends_at) = (finish.time(finish.finish_by), finish.time(ends_at));
    Err(SteerError::TooLate { campaign: campaign.to_owned(), by, most: finish.most, ends_at })
}
