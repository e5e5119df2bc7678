use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::Monotonic;

use super::*;
use crate::event::{ChangeKind, ChangeTone, StateChange, Telemetry};
use tidegate_operator::connections::ClientAddress;

pub(crate) fn change(kind: ChangeKind, title: &str) -> StateChange {
    StateChange {
        seq: 0,
        at: EpochMillis::new(1_795_206_967_042),
        kind,
        campaign: None,
        title: title.to_owned(),
        detail: String::new(),
        tone: ChangeTone::Info,
    }
}

fn registry(most: usize) -> StreamRegistry {
    StreamRegistry::new(StreamLimits::default(), ChangeLog::with_capacity("h".to_owned(), most))
}

fn address(last: u8) -> ClientAddress {
    ClientAddress::of(std::net::IpAddr::from([192, 0, 2, last]))
}

fn at(millis: u64) -> Monotonic {
    Monotonic::from_origin(Duration::from_millis(millis))
}

/// A browser: what it knows, and how it comes back.
#[derive(Debug, Default)]
struct Client {
    stream: Option<u64>,
    last: Option<String>,
    seen: BTreeSet<u64>,
    missed: u64,
    figures: Option<String>,
}

impl Client {
    fn hear(&mut self, frame: &Frame) {
        if let Some(id) = &frame.id {
            if self.last.is_none() {
                // The whole state tells a client that was never here all that was before.
                self.seen.extend(1..=id.parse::<Cursor>().unwrap().seq);
            }
            self.last = Some(id.clone());
        }
        let data: serde_json::Value = serde_json::from_str(&frame.data).unwrap();
        match frame.event {
            "state" => self.figures = Some(data["figures"].to_string()),
            "figures" => self.figures = Some(data.to_string()),
            "gap" => self.missed += data["missed"].as_u64().unwrap(),
            _ if frame.id.is_some() => drop(self.seen.insert(data["seq"].as_u64().unwrap())),
            _ => {}
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish(ChangeKind, u8),
    Figures,
    Wait(u16),
    /// So many events go out; of them the last so many are lost with the connection.
    Read(u8, Option<u8>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = (0..ChangeKind::VARIANTS.len()).prop_map(|index| ChangeKind::VARIANTS[index]);
    let step = prop_oneof![
        4 => (kind, 1_u8..120).prop_map(|(kind, count)| Step::Publish(kind, count)),
        2 => Just(Step::Figures),
        2 => (0_u16..4_000).prop_map(Step::Wait),
        3 => (1_u8..40, prop::option::of(0_u8..10)).prop_map(|(read, lost)| Step::Read(read, lost)),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// Whatever is published, read slowly, and cut off: in the end a client has every change, or was told
    /// how many it has not; nothing waits beyond the queue; and the figures are the newest.
    #[test]
    fn no_change_is_lost_without_a_word(steps in steps(), most in 50_usize..400) {
        let mut registry = registry(most);
        let mut client = Client::default();
        let (mut now, mut published, mut figures) = (at(0), 0_u64, 0_u64);
        let open = |registry: &mut StreamRegistry, client: &mut Client, now: Monotonic| {
            client.stream = Some(registry.open(address(1), client.last.as_deref(), now).unwrap());
        };
        open(&mut registry, &mut client, now);
        for step in steps {
            match step {
                Step::Publish(kind, count) => for _ in 0..count {
                    published += 1;
                    registry.publish(change(kind, "x"));
                },
                Step::Figures => {
                    figures += 1;
                    registry.show(Telemetry::Figures, figures.to_string().into());
                }
                Step::Wait(millis) => now = now + Duration::from_millis(millis.into()),
                Step::Read(count, lost) => {
                    let stream = client.stream.unwrap();
                    let mut went = Vec::new();
                    for _ in 0..count {
                        match registry.next(stream, now) {
                            StreamStep::Frame(frame) => went.push(frame),
                            StreamStep::At(at) => {
                                prop_assert!(at > now);
                                now = at;
                            }
                            StreamStep::Nothing => break,
                            StreamStep::Closed => prop_assert!(false, "nobody closed it"),
                        }
                    }
                    let arrived = went.len() - went.len().min(lost.unwrap_or(0).into());
                    went[..arrived].iter().for_each(|frame| client.hear(frame));
                    if lost.is_some() {
                        registry.close(stream);
                        open(&mut registry, &mut client, now);
                    }
                }
            }
            prop_assert!(registry.waiting().1 <= QUEUE);
        }
        let stream = client.stream.unwrap();
        loop {
            match registry.next(stream, now) {
                StreamStep::Frame(frame) => client.hear(&frame),
                StreamStep::At(at) => now = at,
                StreamStep::Nothing | StreamStep::Closed => break,
            }
        }
        let unseen = (1..=published).filter(|seq| !client.seen.contains(seq)).count() as u64;
        // What was told as missing may have come after all, from an earlier connection.
        prop_assert!(unseen <= client.missed, "{unseen} were not seen, {} told", client.missed);
        if client.missed == 0 {
            prop_assert_eq!(unseen, 0);
        }
        let newest = if figures == 0 { "null".to_owned() } else { figures.to_string() };
        prop_assert_eq!(client.figures, Some(newest));
    }
}

fn drain(registry: &mut StreamRegistry, stream: u64, now: &mut Monotonic) -> Vec<Frame> {
    let mut frames = Vec::new();
    loop {
        match registry.next(stream, *now) {
            StreamStep::Frame(frame) => frames.push(frame),
            StreamStep::At(at) => *now = at,
            StreamStep::Nothing | StreamStep::Closed => return frames,
        }
    }
}

fn names(frames: &[Frame]) -> Vec<&'static str> {
    frames.iter().map(|frame| frame.event).collect()
}

#[test]
fn the_whole_state_comes_first_and_says_where_the_client_is() {
    let mut registry = registry(100);
    registry.publish(change(ChangeKind::Hold, "before"));
    registry.show(Telemetry::Figures, "{\"rate\":14}".into());
    let stream = registry.open(address(1), None, at(0)).unwrap();
    let frames = drain(&mut registry, stream, &mut at(0));
    assert_eq!(names(&frames), ["state"]);
    assert_eq!(frames[0].id.as_deref(), Some("h-1"));
    let state: serde_json::Value = serde_json::from_str(&frames[0].data).unwrap();
    assert_eq!(state["figures"]["rate"], 14);
    assert_eq!(state["recent"][0]["title"], "before");
    assert_eq!(state["forecast"], serde_json::Value::Null);
}

#[test]
fn while_tokens_are_missing_the_weightiest_goes_first_and_figures_fourth_as_their_newest() {
    let mut registry = registry(100);
    let stream = registry.open(address(1), None, at(0)).unwrap();
    // The burst is used up.
    for _ in 0..9 {
        registry.publish(change(ChangeKind::Change, "x"));
    }
    let mut now = at(0);
    assert_eq!(registry.next(stream, now).event(), Some("state"));
    for _ in 0..9 {
        assert_eq!(registry.next(stream, now).event(), Some("change"));
    }
    assert_eq!(registry.next(stream, now), StreamStep::Nothing);
    for figure in ["1", "2", "3"] {
        registry.show(Telemetry::Figures, figure.into());
    }
    for kind in [ChangeKind::Progress, ChangeKind::Change, ChangeKind::Breaker, ChangeKind::Hold] {
        registry.publish(change(kind, "waits"));
    }
    assert_eq!(registry.next(stream, now), StreamStep::At(at(200)));
    let frames = drain(&mut registry, stream, &mut now);
    assert_eq!(names(&frames), ["hold", "breaker", "change", "figures", "progress"]);
    assert_eq!(&*frames[3].data, "3");
    assert_eq!(now, at(1_000), "five events took five tokens");
    // Until the change before them is told too, a client that goes comes back for all of them.
    let ids: Vec<_> = frames.iter().map(|frame| frame.id.as_deref()).collect();
    assert_eq!(ids, [Some("h-9"), Some("h-9"), Some("h-9"), None, Some("h-13")]);
    let counts = &registry.counts;
    assert_eq!((counts.dropped["figures"], counts.sent.values().sum::<u64>()), (2, 15));
    assert_eq!(counts.waited, 5);
}

#[test]
fn where_more_wait_than_the_queue_holds_the_least_are_given_up_and_it_is_said() {
    let mut registry = registry(1_000);
    let stream = registry.open(address(1), None, at(0)).unwrap();
    for _ in 0..QUEUE {
        registry.publish(change(ChangeKind::Progress, "x"));
    }
    for _ in 0..30 {
        registry.publish(change(ChangeKind::Hold, "x"));
    }
    assert_eq!(registry.waiting(), (QUEUE, QUEUE));
    let frames = drain(&mut registry, stream, &mut at(0));
    let of = |name| frames.iter().filter(|frame| frame.event == name).count();
    assert_eq!((of("hold"), of("progress"), of("gap")), (30, QUEUE - 30, 1));
    assert!(frames[1].data.contains("\"missed\":30"), "{}", frames[1].data);
    assert_eq!((registry.counts.dropped["progress"], registry.counts.gaps), (30, 1));
}

#[test]
fn who_comes_back_is_told_what_it_missed_and_what_nobody_knows_any_more() {
    let mut registry = registry(3);
    for _ in 0..5 {
        registry.publish(change(ChangeKind::Hold, "x"));
    }
    let mut come = |last: &str| {
        let stream = registry.open(address(1), Some(last), at(0)).unwrap();
        let frames = drain(&mut registry, stream, &mut at(0));
        registry.close(stream);
        frames.into_iter().skip(1).map(|frame| (frame.event, frame.id)).collect::<Vec<_>>()
    };
    let hold = |seq: u64| ("hold", Some(format!("h-{seq}")));
    assert_eq!(come("h-5"), []);
    assert_eq!(come("h-3"), [hold(4), hold(5)]);
    assert_eq!(come("h-2"), [hold(3), hold(4), hold(5)]);
    assert_eq!(come("h-0"), [("gap", None), hold(3), hold(4), hold(5)]);
    for unknown in ["other-3", "h-6", "h", "", "nonsense"] {
        assert_eq!(come(unknown), [("gap", None)], "{unknown}");
    }
    assert_eq!((registry.counts.reconnects, registry.counts.replayed), (9, 8));
}

#[test]
fn a_stalled_stream_holds_marks_and_a_queue_and_costs_the_others_nothing() {
    let mut registry = registry(1_000);
    let stalled = registry.open(address(1), None, at(0)).unwrap();
    let reader = registry.open(address(1), None, at(0)).unwrap();
    let mut now = at(0);
    let mut heard = 0;
    for second in 0..600_u64 {
        now = now.max(at(second * 1_000));
        registry.publish(change(ChangeKind::Hold, "x"));
        registry.show(Telemetry::Figures, second.to_string().into());
        heard +=
            drain(&mut registry, reader, &mut now).iter().filter(|f| f.event == "hold").count();
    }
    assert_eq!(heard, 600);
    assert_eq!(registry.waiting(), (QUEUE, QUEUE));
    assert!(now < at(602_000), "{now:?}");
    assert!(
        matches!(registry.next(stalled, now), StreamStep::Frame(frame) if frame.event == "state")
    );
}

#[test]
fn a_session_an_address_and_all_together_have_so_many_streams() {
    let limits = StreamLimits {
        streams_per_session: 1,
        streams_per_address: 2,
        streams: 3,
        ..StreamLimits::default()
    };
    let mut registry = StreamRegistry::new(limits, ChangeLog::new("h".to_owned()));
    let mut open = |last: u8, session: &str| {
        let client = StreamClient { session: session.to_owned(), address: address(last) };
        registry.open(client, None, at(0))
    };
    let first = open(1, "ada").unwrap();
    assert_eq!(open(1, "ada"), Err(TooManyStreams::Session));
    open(1, "bob").unwrap();
    assert_eq!(open(1, "eve"), Err(TooManyStreams::Address));
    open(2, "eve").unwrap();
    assert_eq!(open(3, "sam"), Err(TooManyStreams::All));
    registry.close(first);
    assert_eq!((registry.streams(), registry.addresses()), (2, 2));
    registry.open(address(1), None, at(0)).unwrap();
    let refused = [("address", 1), ("all", 1), ("session", 1)];
    assert_eq!(registry.counts.refused, refused.into());
}

#[test]
fn an_address_opens_each_of_its_streams_twice_at_once_and_all_of_them_every_twenty_seconds() {
    let limits = StreamLimits { streams_per_address: 10, ..StreamLimits::default() };
    let mut registry = StreamRegistry::new(limits, ChangeLog::new("h".to_owned()));
    let mut reopen = |last: u8, millis: u64| -> Result<(), TooManyStreams> {
        let opened = registry.open(address(last), None, at(millis))?;
        registry.close(opened);
        Ok(())
    };
    for _ in 0..20 {
        assert_eq!(reopen(1, 0), Ok(()));
    }
    assert_eq!(reopen(1, 1_999), Err(TooManyStreams::Often));
    assert_eq!(reopen(2, 1_999), Ok(()), "another address is not concerned");
    assert_eq!(reopen(1, 2_000), Ok(()));
    assert_eq!(reopen(1, 2_000), Err(TooManyStreams::Often));
    assert_eq!(reopen(2, 60_000), Ok(()));
    assert_eq!(registry.openings.len(), 1, "a full bucket is forgotten");
    assert_eq!(registry.counts.refused, [("often", 2)].into());
}

#[tokio::test(start_paused = true)]
async fn a_stream_wakes_when_there_is_something_and_when_its_token_is_there() {
    use futures_util::FutureExt as _;
    let hub = std::sync::Arc::new(Hub::new(registry(100)));
    let mut stream = hub.subscribe(address(1), None).unwrap();
    assert_eq!(stream.next().await.unwrap().event, "state");
    assert!(stream.next().now_or_never().is_none());
    let (told, ()) = tokio::join!(stream.next(), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        hub.change(|registry| registry.publish(change(ChangeKind::Hold, "x")));
    });
    assert_eq!(told.unwrap().event, "hold");
    for _ in 0..20 {
        hub.change(|registry| registry.publish(change(ChangeKind::Hold, "x")));
    }
    let begun = tokio::time::Instant::now();
    for _ in 0..20 {
        assert_eq!(stream.next().await.unwrap().event, "hold");
    }
    // The bucket was full but for the hold before: 9 at once, 11 more at five a second.
    let took = begun.elapsed();
    assert!((2_200..2_250).contains(&took.as_millis()), "{took:?}");
    hub.change(StreamRegistry::close_all);
    assert!(stream.next().await.is_none());
    drop(stream);
    assert_eq!(hub.look(StreamRegistry::streams), 0);
}

impl StreamStep {
    fn event(&self) -> Option<&'static str> {
        match self {
            Self::Frame(frame) => Some(frame.event),
            _ => None,
        }
    }
}
