//! Decides which message attributes are accepted from a queue that producers write.
//!
//! Pollers and replays put mail back on its campaign's queue, or on the express queue, with its
//! envelope as attributes. Producers write these queues too and can attach any attributes. So an
//! envelope is accepted only if Tidegate can have written it, and only if it concerns the queue's own
//! campaign:
//!
//! - it is complete and names the queue's campaign;
//! - its identity belongs to that campaign: it has the body's `id`, or an SQS message id if the body
//!   has none;
//! - its pass is at least 1 (fresh mail has none) and at most what replays can reach;
//! - it has at most as many attempts as passes.
//!
//! Without such an envelope a mail counts as fresh. The values of an accepted envelope are limited:
//! `enqueued_at` lies within the 14 days before SQS took this copy, `first_attempt_at` lies between the
//! two, and if no attempt would be left, attempts count from 0 again.
//!
//! A producer of one campaign can therefore use up passes and attempts of that campaign's mail only.
//! Merge queue and limit queues are written by pollers alone.

use std::time::Duration;

use super::{Envelope, EpochMillis, Identity};

/// SQS keeps a message for at most 14 days (`MessageRetentionPeriod`).
const LONGEST_RETENTION: Duration = Duration::from_hours(14 * 24);

/// Largest accepted pass. Each replay of a parked mail adds 65,536, so 32,767 replays are possible. The
/// numbers above are left for the next passes, so that the next pass always differs.
const MOST_PASSES: u32 = u32::MAX / 2;

/// A message from a campaign queue or the express queue, with the values that its envelope is checked
/// against.
#[derive(Clone, Copy, Debug)]
pub struct CampaignMessage<'a> {
    /// The campaign of the queue, or `express`.
    pub campaign: &'a str,
    /// The `id` in the message's body; none if it has none.
    pub id: Option<&'a str>,
    /// Time at which SQS took the message into this queue (`SentTimestamp`).
    pub sent_at: EpochMillis,
    /// Number of attempts after which a mail is given up (`TIDEGATE_MAX_ATTEMPTS`).
    pub max_attempts: u32,
}

impl CampaignMessage<'_> {
    /// The accepted envelope of the message; none if the mail counts as fresh. `attribute` returns an
    /// attribute's value by name.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use tidegate_core::identity::{CampaignMessage, Envelope, EpochMillis, Identity};
    /// let at = EpochMillis::new(1_795_206_967_042);
    /// let message = CampaignMessage { campaign: "news", id: Some("7"), sent_at: at, max_attempts: 5 };
    /// let read = |envelope: &Envelope| {
    ///     let attributes: HashMap<_, _> = envelope.to_attributes().into_iter().collect();
    ///     message.envelope(|name| attributes.get(name).map(String::as_str))
    /// };
    /// let ours = Envelope::fresh("news", Identity::from_body_id("news", "7"), at).put_back();
    /// assert_eq!(read(&ours), Some(ours.clone()));
    /// let foreign = Envelope { identity: Identity::from_body_id("small", "7"), ..ours };
    /// assert_eq!(read(&foreign), None);
    /// ```
    pub fn envelope<'a>(&self, attribute: impl Fn(&str) -> Option<&'a str>) -> Option<Envelope> {
        let found = Envelope::from_attributes(attribute).ok()??;
        let ours = found.campaign == self.campaign
            && self.owns(&found.identity)
            && (1..=MOST_PASSES).contains(&found.pass)
            && found.attempt <= found.pass;
        ours.then(|| self.bounded(found))
    }

    fn owns(&self, identity: &Identity) -> bool {
        match self.id {
            Some(id) => *identity == Identity::from_body_id(self.campaign, id),
            None => identity.is_of_message_in(self.campaign),
        }
    }

    fn bounded(&self, found: Envelope) -> Envelope {
        let retention = u64::try_from(LONGEST_RETENTION.as_millis()).unwrap_or(u64::MAX);
        let oldest = EpochMillis::new(self.sent_at.as_millis().saturating_sub(retention));
        let enqueued_at = found.enqueued_at.clamp(oldest, self.sent_at);
        let first_attempt_at = found.first_attempt_at.map(|at| at.clamp(enqueued_at, self.sent_at));
        // The limit may have been lowered since the envelope was written.
        let attempt = if found.attempt < self.max_attempts { found.attempt } else { 0 };
        Envelope { attempt, enqueued_at, first_attempt_at, ..found }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const SENT_AT: EpochMillis = EpochMillis::new(1_795_206_967_042);
    const MAX_ATTEMPTS: u32 = 5;

    fn message(id: Option<&str>) -> CampaignMessage<'_> {
        CampaignMessage { campaign: "news", id, sent_at: SENT_AT, max_attempts: MAX_ATTEMPTS }
    }

    fn read(id: Option<&str>, attributes: &BTreeMap<&str, String>) -> Option<Envelope> {
        message(id).envelope(|name| attributes.get(name).map(String::as_str))
    }

    /// Attributes of a mail that was put back twice, once after a failed send.
    fn ours() -> BTreeMap<&'static str, String> {
        let fresh = Envelope::fresh("news", Identity::from_body_id("news", "7"), SENT_AT);
        fresh.put_back().put_back_failed(SENT_AT, "503").to_attributes().into_iter().collect()
    }

    #[test]
    fn a_mail_that_was_put_back_keeps_its_envelope() {
        let read = read(Some("7"), &ours()).unwrap();
        assert_eq!((read.pass, read.attempt, read.enqueued_at), (2, 1, SENT_AT));
        assert_eq!(read.last_error.as_deref(), Some("503"));
    }

    #[test]
    fn a_mail_without_an_id_keeps_its_first_message_id() {
        let of = |identity: Identity| {
            let envelope = Envelope::fresh("news", identity, SENT_AT).put_back();
            let attributes = envelope.to_attributes().into_iter().collect();
            read(None, &attributes).is_some()
        };
        assert!(of(Identity::from_message_id("news", "b3f6a5c2-8f0e-4d6c-9a57-1d0f4f6f2f11")));
        assert!(!of(Identity::from_message_id("small", "b3f6a5c2")));
        assert!(!of(Identity::from_message_id("news", "")));
        assert!(!of(Identity::from_message_id("news", &"x".repeat(101))), "SQS has none so long");
        assert!(!of(Identity::from_message_id("news", &"x".repeat(4_000))), "a hash");
        assert!(!of(Identity::from_body_id("news", "7")));
    }

    #[test]
    fn what_cannot_be_ours_is_fresh_mail() {
        for (name, value) in [
            ("campaign", "small"),
            ("identity", "small/id/7"),
            ("identity", "news/id/8"),
            ("identity", "news/msg/7"),
            ("identity", "order 7"),
            ("pass", "0"),
            ("pass", "4294967295"),
            ("pass", "often"),
            ("attempt", "3"),
            ("attempt", "4294967295"),
            ("enqueued_at", "long ago"),
            ("first_attempt_at", "never"),
        ] {
            let mut attributes = ours();
            attributes.insert(name, value.to_owned());
            assert_eq!(read(Some("7"), &attributes), None, "{name}={value}");
        }
        for name in ["campaign", "identity", "pass", "attempt", "enqueued_at"] {
            let mut attributes = ours();
            attributes.remove(name);
            assert_eq!(read(Some("7"), &attributes), None, "without {name}");
        }
    }

    #[test]
    fn a_parked_mail_and_each_of_its_replays_keep_their_envelopes() {
        let fresh = Envelope::fresh("news", Identity::from_body_id("news", "7"), SENT_AT);
        let mut replayed = fresh;
        for replays in 1..1_000 {
            replayed = replayed.parked().put_back();
            let attributes = replayed.to_attributes().into_iter().collect();
            assert_eq!(read(Some("7"), &attributes).as_ref(), Some(&replayed), "{replays}");
        }
    }

    #[test]
    fn where_fewer_attempts_are_allowed_meanwhile_it_has_all_of_them_again() {
        let attempts = |attempt: u32| {
            let mut attributes = ours();
            attributes.extend([("pass", "9".to_owned()), ("attempt", attempt.to_string())]);
            read(Some("7"), &attributes).unwrap().attempt
        };
        assert_eq!([attempts(4), attempts(5), attempts(9)], [4, 0, 0]);
    }

    #[test]
    fn its_times_lie_within_what_sqs_keeps_a_message() {
        let read = |enqueued_at: &str, first_attempt_at: &str| {
            let mut attributes = ours();
            attributes.insert("enqueued_at", enqueued_at.to_owned());
            attributes.insert("first_attempt_at", first_attempt_at.to_owned());
            let read = read(Some("7"), &attributes).unwrap();
            (read.enqueued_at, read.first_attempt_at.unwrap())
        };
        let (long_ago, far_off) = ("1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z");
        let oldest = EpochMillis::new(SENT_AT.as_millis() - 14 * 24 * 3_600_000);
        assert_eq!(read(long_ago, long_ago), (oldest, oldest));
        assert_eq!(read(far_off, far_off), (SENT_AT, SENT_AT));
        assert_eq!(read(long_ago, far_off), (oldest, SENT_AT));
    }

    fn mostly<T: std::fmt::Debug>(
        usual: impl Strategy<Value = T> + 'static,
        other: impl Strategy<Value = T> + 'static,
    ) -> impl Strategy<Value = T> {
        prop_oneof![4 => usual, 1 => other]
    }

    fn number() -> impl Strategy<Value = String> {
        let any_number = any::<u32>().prop_map(|number| number.to_string());
        mostly((0_u32..8).prop_map(|number| number.to_string()), prop_oneof![any_number, ".{0,6}"])
    }

    fn time() -> impl Strategy<Value = String> {
        mostly(any::<u64>().prop_map(|millis| EpochMillis::new(millis).to_string()), ".{0,12}")
    }

    fn attached(
        value: impl Strategy<Value = String> + 'static,
    ) -> impl Strategy<Value = Option<String>> {
        option::weighted(0.9, value)
    }

    prop_compose! {
        /// Attributes that producers might attach, often close enough to Tidegate's to be accepted.
        fn attributes()(
            campaign in attached(mostly(Just("news".to_owned()), ".{0,6}")),
            identity in attached(mostly(
                select(vec!["news/id/7", "news/msg/7", "small/id/7", "small/msg/7", "news/id/8"])
                    .prop_map(str::to_owned),
                "(news|small|sha256|.{0,3})(/(id|msg))?/.{0,6}",
            )),
            pass in attached(number()),
            attempt in attached(number()),
            enqueued_at in attached(time()),
            first_attempt_at in option::of(time()),
            last_error in option::of("(.|\\s){0,300}"),
        ) -> BTreeMap<&'static str, String> {
            let all = [
                ("campaign", campaign),
                ("identity", identity),
                ("pass", pass),
                ("attempt", attempt),
                ("enqueued_at", enqueued_at),
                ("first_attempt_at", first_attempt_at),
                ("last_error", last_error),
            ];
            all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_attached_a_mail_is_fresh_or_has_an_envelope_of_its_own_campaign(
            attributes in attributes(), id in option::of(select(vec!["7", "8", "small/id/7"])),
        ) {
            let Some(envelope) = read(id, &attributes) else { return Ok(()) };
            prop_assert_eq!(&envelope.campaign, "news");
            prop_assert_eq!(envelope.identity.campaign(), Some("news".to_owned()));
            if let Some(id) = id {
                prop_assert_eq!(&envelope.identity, &Identity::from_body_id("news", id));
            }
            prop_assert!(envelope.pass >= 1 && envelope.attempt < MAX_ATTEMPTS);
            prop_assert!(envelope.enqueued_at <= SENT_AT);
            let waited = SENT_AT.as_millis() - envelope.enqueued_at.as_millis();
            prop_assert!(waited <= 14 * 24 * 3_600_000);
            // The pass of the next copy differs, so the merge queue does not drop it as a duplicate.
            let again = envelope.clone().put_back_failed(SENT_AT, "503");
            prop_assert!(again.pass > envelope.pass && again.attempt == envelope.attempt + 1);
            prop_assert!(envelope.clone().parked().put_back().pass > envelope.pass);
        }

        #[test]
        fn whatever_befalls_our_mail_it_keeps_its_identity_and_pass(
            id in option::of("\\PC{1,9}"),
            steps in proptest::collection::vec(0_u8..4, 1..12),
        ) {
            let identity = match &id {
                Some(id) => Identity::from_body_id("news", id),
                None => Identity::from_message_id("news", "b3f6a5c2"),
            };
            let fresh = Envelope::fresh("news", identity, SENT_AT);
            let ours = steps.into_iter().fold(fresh, |mail, step| match step {
                0 => mail.put_back(),
                1 => mail.put_back_failed(SENT_AT, "503"),
                2 => mail.put_back_uncounted(SENT_AT, "503"),
                _ => Envelope { attempt: 0, ..mail.parked() }.put_back(),
            });
            let attributes = ours.to_attributes().into_iter().collect();
            let read = read(id.as_deref(), &attributes).unwrap();
            let attempt = if ours.attempt < MAX_ATTEMPTS { ours.attempt } else { 0 };
            prop_assert_eq!(read, Envelope { attempt, ..ours });
        }
    }
}
