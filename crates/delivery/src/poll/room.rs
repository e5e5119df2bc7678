//! A poller's room for mail: a budget in bytes of message bodies.
//!
//! A receive reserves room before it is made, since its answer cannot be refused: as many times the size of
//! its queue's largest recent body as it asks for messages. It waits while there is no room for even one
//! message. When the answer is there, the reservation is replaced by the true sizes; each body's bytes
//! become free when the last clone of the body is dropped.
//!
//! Three cases need a rule of their own:
//!
//! - A queue that never answered is asked by one receive at a time, since its sizes are unknown.
//! - Mails of a queue that gave none yet are assumed to be as large as the largest of any queue. A long
//!   poll of such a queue asks for one mail only: the queue is probably empty, and room that is reserved
//!   for a second is out of use for others.
//! - Bodies larger than was assumed are held and counted all the same; the receives after them wait. One
//!   message always fits if nothing else is held, so that a body larger than the whole room is still
//!   received.
//!
//! Content that is fetched from the store takes room by itself, before it is fetched, and at most three quarters of it: the
//! rest stays with the queues.
//!
//! Example, with room for 1,000,000 bytes and nothing known: a receive of 10 reserves a quarter, 250,000
//! (25,000 a message). It brings one body of 2,000 bytes, so 2,000 are held. The next receive of 10
//! reserves 20,000.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tidegate_core::allocation::BATCH;

use crate::ports::{QueueUrl, Received, WrittenRequest};

/// With each answer that has mail the largest size known falls by 1/100, unless a body is larger: it is
/// halved in 69 answers (0.99^69 = 0.5).
const FORGETTING: u64 = 100;
/// A receive of 10 messages reserves the room divided by this, as long as no queue has given any body.
const UNKNOWN_PART: u64 = 4;

#[derive(Debug, Default)]
pub(super) struct Room {
    bytes: Arc<Bytes>,
    /// The part of `bytes` for content of the store.
    contents: Arc<Bytes>,
    queues: RefCell<BTreeMap<QueueUrl, QueueSizes>>,
    /// The largest recent body of any queue, bytes. Kept, because receives that wait ask for it whenever room becomes
    /// free: with 1,000 queues looking for it took a quarter of a window's work.
    largest_of_all: Cell<Option<u64>>,
}

#[derive(Debug, Default)]
struct Bytes {
    most: u64,
    held: Mutex<RoomState>,
}

#[derive(Debug, Default)]
struct RoomState {
    bytes: u64,
    /// Receives that wait for room, all woken whenever any becomes free.
    waiting: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, Default)]
struct QueueSizes {
    /// Largest recent body, bytes; none if the queue never gave a message.
    largest: Option<u64>,
    /// True after the first answer without an error, an empty one included.
    answered: bool,
    under_way: u64,
}

/// A part of the room, free again when this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    of: Arc<Bytes>,
    bytes: u64,
}

/// Room for content of the store.
#[derive(Debug)]
pub(super) struct ContentRoom {
    _share: Share,
    _of_contents: Share,
}

/// A content in the store, and the configuration set that was chosen for its mail: its written request names both.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ContentKey {
    pub(crate) object: String,
    pub(crate) through: Option<String>,
}

/// The part of a large mail's sending that is done before its slot.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// The request; none where the mail is small.
    pub(crate) request: Option<WrittenRequest>,
    /// The room of its content, if that was fetched from the store: free once this is dropped.
    pub(super) _room: Option<ContentRoom>,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.add(0, self.bytes);
    }
}

/// A receive for which room is reserved; dropped without [`Reserved::hold`], it frees the room.
#[derive(Debug)]
pub(super) struct Reserved<'a> {
    room: &'a Room,
    queue: QueueUrl,
    /// How many messages to ask SQS for: at least 1, at most as many as were wanted.
    pub(super) messages: u64,
    share: Share,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(known) = self.room.queues.borrow_mut().get_mut(&self.queue) {
            known.under_way = known.under_way.saturating_sub(1);
        }
    }
}

impl Room {
    pub(super) fn of(most: u64) -> Self {
        let of = |most| Arc::new(Bytes { most, ..Bytes::default() });
        Self { bytes: of(most), contents: of(most / 4 * 3), ..Self::default() }
    }

    /// Waits until there are `bytes` for content. `make_room` gives up what is kept for later, until there is no more.
    pub(super) async fn reserve_content(
        &self,
        bytes: u64,
        make_room: impl Fn() -> bool,
    ) -> ContentRoom {
        poll_fn(|context| {
            self.bytes.wait(context.waker());
            self.contents.wait(context.waker());
            loop {
                if let Some(room) = self.try_content(bytes) {
                    return Poll::Ready(room);
                }
                if !make_room() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    fn try_content(&self, bytes: u64) -> Option<ContentRoom> {
        // Looked at before it is taken: giving it back would wake those who wait, this one too.
        if !self.contents.has(bytes) {
            return None;
        }
        let (_, share) = self.bytes.take(1, bytes)?;
        let (_, of_contents) = self.contents.take(1, bytes)?;
        Some(ContentRoom { _share: share, _of_contents: of_contents })
    }

    /// The most bytes of content that may be held at once.
    pub(super) fn for_contents(&self) -> u64 {
        self.contents.most
    }

    /// Waits until there is room for `messages` of a queue, or for at least one of them. `wait` is the
    /// receive's `WaitTimeSeconds`: zero for a short poll.
    pub(super) async fn reserve(
        &self,
        queue: &QueueUrl,
        messages: u64,
        wait: Duration,
    ) -> Reserved<'_> {
        poll_fn(|context| {
            let first = self.try_reserve(queue, messages, wait);
            // The last clone of a body may be dropped on another thread between the first try and the
            // registration of the waker; nothing would wake this receive then. Hence the second try.
            let reserved = first.or_else(|| {
                self.bytes.wait(context.waker());
                self.try_reserve(queue, messages, wait)
            });
            reserved.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn try_reserve(&self, queue: &QueueUrl, messages: u64, wait: Duration) -> Option<Reserved<'_>> {
        let mut queues = self.queues.borrow_mut();
        let known = queues.entry(queue.clone()).or_default();
        // The first answer tells the sizes; until then one receive bounds the error.
        if !known.answered && known.under_way > 0 {
            return None;
        }
        let unknown = self.largest_of_all.get().unwrap_or(self.bytes.most / UNKNOWN_PART / BATCH);
        // A long poll holds its reservation for up to a second, probably for nothing.
        let messages = if known.largest.is_none() && !wait.is_zero() { 1 } else { messages };
        let size = known.largest.unwrap_or(unknown);
        let (messages, share) = self.bytes.take(messages, size)?;
        known.under_way += 1;
        Some(Reserved { room: self, queue: queue.clone(), messages, share })
    }

    #[cfg(test)]
    fn held(&self) -> u64 {
        self.bytes.held().bytes
    }
}

impl Reserved<'_> {
    /// Replaces the reservation by the bodies that came: each takes its own size until its last clone is
    /// dropped.
    pub(super) fn hold(self, received: &mut [Received]) {
        let sizes = received.iter().map(|message| message.body.bytes() as u64);
        let mut queues = self.room.queues.borrow_mut();
        if let Some(known) = queues.get_mut(&self.queue) {
            known.answered = true;
            let before = known.largest;
            let forgotten = before.map(|largest| largest - largest.div_ceil(FORGETTING));
            // An empty answer says nothing about sizes: what was known stays.
            known.largest = sizes.max().max(forgotten).filter(|_| !received.is_empty()).or(before);
            let (largest, of_all) = (known.largest, self.room.largest_of_all.get());
            // The one that was the largest may have become smaller than another.
            let anew = before == of_all && largest < before;
            self.room.largest_of_all.set(if anew {
                queues.values().filter_map(|known| known.largest).max()
            } else {
                largest.max(of_all)
            });
        }
        drop(queues);
        for message in received {
            let bytes = message.body.bytes() as u64;
            self.share.of.add(bytes, 0);
            let share = Share { of: Arc::clone(&self.share.of), bytes };
            message.body = message.body.clone().guarded(share);
        }
        // `self` is dropped here: the reservation is freed, which wakes the receives that wait. The bodies
        // were added first, so that no receive takes room that is about to be used.
    }
}

impl Bytes {
    fn held(&self) -> std::sync::MutexGuard<'_, RoomState> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, bytes: u64) -> bool {
        let held = self.held().bytes;
        held == 0 || held.saturating_add(bytes) <= self.most
    }

    /// Takes room for as many of `messages` of `size` bytes as fit, none if not one does. If nothing is
    /// held, one message is granted whatever its size.
    ///
    /// Example: of 1,000 bytes 400 are held, `size` is 250: 2 of 10 messages fit, and 500 bytes are taken.
    fn take(self: &Arc<Self>, messages: u64, size: u64) -> Option<(u64, Share)> {
        let mut held = self.held();
        let free = self.most.saturating_sub(held.bytes);
        let fit = free.checked_div(size).unwrap_or(messages).min(messages);
        let fit = if held.bytes == 0 { fit.max(1) } else { fit };
        if fit == 0 {
            return None;
        }
        let bytes = fit.saturating_mul(size);
        held.bytes = held.bytes.saturating_add(bytes);
        Some((fit, Share { of: Arc::clone(self), bytes }))
    }

    /// Counts `taken` bytes as held and `free` bytes as free, and wakes all receives that wait.
    fn add(&self, taken: u64, free: u64) {
        let waiting = {
            let mut held = self.held();
            held.bytes = held.bytes.saturating_add(taken).saturating_sub(free);
            std::mem::take(&mut held.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    fn wait(&self, waker: &Waker) {
        let mut held = self.held();
        if !held.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
            held.waiting.push(waker.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use futures_util::FutureExt as _;
    use futures_util::task::ArcWake;
    use proptest::prelude::*;
    use tidegate_core::compression::compress;
    use tidegate_core::dead_letter::SQS_LIMIT_BYTES;

    use super::*;
    use crate::ports::Body;

    const LONG: Duration = Duration::from_secs(1);

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl ArcWake for Woken {
        fn wake_by_ref(woken: &Arc<Self>) {
            woken.0.fetch_add(1, SeqCst);
        }
    }

    fn received(bytes: u64) -> Received {
        Received {
            message_id: String::new(),
            receipt: String::new(),
            body: "x".repeat(usize::try_from(bytes).unwrap()).into(),
            attributes: BTreeMap::new(),
            sent_at_millis: 0,
            receive_count: 1,
        }
    }

    fn queue(number: usize) -> QueueUrl {
        QueueUrl::new(format!("https://sqs.example/1/{number}"))
    }

    /// Lets `room` learn that a queue's mails have `bytes` bytes, by one receive.
    fn known(room: &Room, number: usize, bytes: u64) {
        let first = room.reserve(&queue(number), 1, Duration::ZERO).now_or_never().unwrap();
        first.hold(&mut [received(bytes)]);
    }

    /// One step of a poller: ask a queue, get an answer with mails of that queue's size, or settle a mail.
    #[derive(Clone, Debug)]
    enum Step {
        Ask { queue: usize, wanted: u64 },
        Answer { which: prop::sample::Index, count: u64 },
        Settle { which: prop::sample::Index },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let index = any::<prop::sample::Index>;
        let step = prop_oneof![
            3 => (0_usize..3, 1_u64..=10).prop_map(|(queue, wanted)| Step::Ask { queue, wanted }),
            3 => (index(), 0_u64..=10).prop_map(|(which, count)| Step::Answer { which, count }),
            3 => index().prop_map(|which| Step::Settle { which }),
        ];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        #[test]
        fn of_queues_whose_sizes_are_known_no_more_is_held_than_there_is_room_for(
            mebibytes in 2_u64..20, sizes in prop::array::uniform3(1_u64..900_000), steps in steps(),
        ) {
            let most = mebibytes * SQS_LIMIT_BYTES as u64;
            let room = Room::of(most);
            (0..3).for_each(|number| known(&room, number, sizes[number]));
            let (mut under_way, mut bodies) = (Vec::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Ask { queue: number, wanted } => {
                        let url = queue(number);
                        let reserved = room.reserve(&url, wanted, Duration::ZERO).now_or_never();
                        prop_assert!(reserved.is_some() || !bodies.is_empty() || !under_way.is_empty());
                        under_way.extend(reserved.map(|reserved| (number, reserved)));
                    }
                    Step::Answer { which, count } if !under_way.is_empty() => {
                        let (number, reserved) = under_way.swap_remove(which.index(under_way.len()));
                        let count = count.min(reserved.messages);
                        let mut mails: Vec<_> = (0..count).map(|_| received(sizes[number])).collect();
                        reserved.hold(&mut mails);
                        bodies.extend(mails.into_iter().map(|mail| mail.body));
                    }
                    Step::Settle { which } if !bodies.is_empty() => {
                        bodies.swap_remove(which.index(bodies.len()));
                    }
                    Step::Answer { .. } | Step::Settle { .. } => {}
                }
                let held: u64 = bodies.iter().map(|body| body.len() as u64).sum();
                prop_assert!(held <= room.held() && room.held() <= most, "{} of {}", room.held(), most);
            }
            drop((under_way, bodies));
            prop_assert_eq!(room.held(), 0, "all of it is free in the end");
        }

        #[test]
        fn mails_of_which_nothing_is_known_are_assumed_as_large_as_the_largest_of_any_queue(
            answers in prop::collection::vec((0_usize..3, prop::option::of(1_u64..1_000)), 1..100),
        ) {
            let room = Room::of(SQS_LIMIT_BYTES as u64);
            for (number, bytes) in answers {
                let mut mails: Vec<_> = bytes.map(received).into_iter().collect();
                room.reserve(&queue(number), 1, Duration::ZERO).now_or_never().unwrap().hold(&mut mails);
                drop(mails);
                let largest = room.queues.borrow().values().filter_map(|known| known.largest).max();
                let assumed = largest.unwrap_or(room.bytes.most / UNKNOWN_PART / BATCH);
                let _one = room.reserve(&queue(9), 1, Duration::ZERO).now_or_never().unwrap();
                prop_assert_eq!(room.held(), assumed);
            }
        }
    }

    #[test]
    fn a_compressed_body_takes_room_for_its_text_and_for_its_form() {
        let room = Room::of(20_000);
        let text = format!(r#"{{"to": "ada@example.com", "text": "{}"}}"#, "Text.".repeat(2_000));
        let form = compress(&text).unwrap();
        let mut mails = [Received { body: Body::from(form.as_str()).received(), ..received(0) }];
        let reserved = room.reserve(&queue(0), 1, Duration::ZERO).now_or_never().unwrap();
        reserved.hold(&mut mails);
        assert_eq!(room.held(), (text.len() + form.len()) as u64);
        assert_eq!((&*mails[0].body, &*mails[0].body.to_queue()), (&*text, &*form));
    }

    #[test]
    fn a_receive_that_found_no_room_is_woken_by_the_last_clone_of_a_body() {
        let room = Room::of(1_000);
        known(&room, 0, 600);
        let mut mails = [received(600)];
        let first = room.reserve(&queue(0), 1, Duration::ZERO).now_or_never().unwrap();
        first.hold(&mut mails);
        let body = mails[0].body.clone();
        let url = queue(0);
        let mut second = std::pin::pin!(room.reserve(&url, 1, Duration::ZERO));
        let woken = Arc::new(Woken::default());
        let waker = futures_util::task::waker(Arc::clone(&woken));
        let mut context = std::task::Context::from_waker(&waker);
        assert!(second.poll_unpin(&mut context).is_pending());
        drop(mails);
        assert_eq!(woken.0.load(SeqCst), 0, "a clone is left");
        drop(body);
        assert_eq!(woken.0.load(SeqCst), 1);
        assert!(second.poll_unpin(&mut context).is_ready());
    }

    #[test]
    fn a_queue_of_which_nothing_is_known_is_asked_once_until_it_answers() {
        let room = Room::of(1_000_000);
        let ask = |wait| room.reserve(&queue(0), 10, wait).now_or_never();
        let first = ask(Duration::ZERO).unwrap();
        assert_eq!((first.messages, room.held()), (10, 250_000));
        assert!(ask(Duration::ZERO).is_none() && ask(LONG).is_none());
        first.hold(&mut [received(2_000)]);
        let known = ask(Duration::ZERO).unwrap();
        assert_eq!((known.messages, room.held()), (10, 20_000));
        assert_eq!(ask(Duration::ZERO).map(|reserved| reserved.messages), Some(10));
    }

    fn content(room: &Room, bytes: u64) -> Option<ContentRoom> {
        room.reserve_content(bytes, || false).now_or_never()
    }

    #[test]
    fn contents_leave_a_quarter_to_the_queues_and_one_always_fits_alone() {
        let room = Room::of(1_000_000);
        assert_eq!(room.for_contents(), 750_000);
        let first = content(&room, 500_000).unwrap();
        assert!(content(&room, 300_000).is_none(), "three quarters are for contents");
        let _second = content(&room, 250_000).unwrap();
        assert_eq!(room.held(), 750_000);
        assert_eq!(
            room.reserve(&queue(0), 10, Duration::ZERO).now_or_never().unwrap().messages,
            10
        );
        drop(first);
        assert_eq!(room.held(), 250_000);
        let alone = Room::of(1_000_000);
        let whole = content(&alone, 990_000).unwrap();
        assert!(content(&alone, 1).is_none());
        drop(whole);
        assert!(content(&alone, 1).is_some());
    }

    #[test]
    fn content_that_is_kept_makes_room_for_content_that_is_needed() {
        let room = Room::of(1_000_000);
        let kept = RefCell::new(vec![content(&room, 400_000), content(&room, 300_000)]);
        let give_up = || kept.borrow_mut().pop().is_some();
        let needed = room.reserve_content(200_000, give_up).now_or_never();
        assert!(needed.is_some() && kept.borrow().len() == 1, "no more than is needed");
    }

    #[test]
    fn a_fetch_that_waits_is_woken_by_room_that_becomes_free() {
        let room = Room::of(1_000_000);
        let held = content(&room, 700_000);
        let woken = Arc::new(Woken::default());
        let waker = futures_util::task::waker(Arc::clone(&woken));
        let mut context = std::task::Context::from_waker(&waker);
        let mut waiting = Box::pin(room.reserve_content(100_000, || false));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(held);
        assert!(woken.0.load(SeqCst) > 0);
        assert!(waiting.as_mut().poll(&mut context).is_ready());
        assert_eq!(room.held(), 0, "and freed again");
    }

    #[test]
    fn waiting_for_mail_where_there_never_was_any_takes_the_room_of_one() {
        let room = Room::of(1_000_000);
        known(&room, 0, 5_000);
        let waiting: Vec<_> =
            (1..50).map(|n| room.reserve(&queue(n), 10, LONG).now_or_never()).collect();
        assert!(waiting.iter().flatten().all(|reserved| reserved.messages == 1));
        assert_eq!((waiting.len(), room.held()), (49, 49 * 5_000));
    }

    #[test]
    fn a_message_larger_than_the_room_is_received_alone() {
        let room = Room::of(1_000);
        known(&room, 0, 5_000);
        let alone = room.reserve(&queue(0), 10, Duration::ZERO).now_or_never().unwrap();
        assert_eq!(alone.messages, 1);
        assert!(room.reserve(&queue(0), 10, Duration::ZERO).now_or_never().is_none());
    }
}
