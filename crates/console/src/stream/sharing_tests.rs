use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_fakes::{MemoryConsoleBuckets, Universe};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::event::ChangeKind;
use crate::rate_limit::{
    BucketRate, ClientAddress, ClientSession, GroupLimits, StreamClient, TooManyStreams,
};
use crate::stream::tests::change;
use crate::tests::Log;

/// A console on which a session has five events at once and one every ten seconds, and two streams.
fn hub() -> Arc<Hub> {
    let session = GroupLimits { events: BucketRate::new(0.1, 5).unwrap(), streams: 2 };
    let limits = StreamLimits { session, ..StreamLimits::default() };
    let hub = Arc::new(Hub::new(StreamRegistry::new(limits, ChangeLog::new("h".into(), vec![]))));
    hub.change(|registry| (0..20).for_each(|_| registry.publish(change(ChangeKind::Hold, "held"))));
    hub
}

/// Runs two consoles with one server for as long as `script` takes.
async fn on_two(script: impl AsyncFnOnce([Arc<Hub>; 2], MemoryConsoleBuckets)) {
    let universe = Universe::starting_at(Timestamp::from_millis(1_795_207_000_000));
    let buckets = MemoryConsoleBuckets::new(universe);
    let hubs = [hub(), hub()];
    let sharing = |at: usize| share_buckets(Arc::clone(&hubs[at]), buckets.clone());
    let (first, second) = (sharing(0), sharing(1));
    tokio::select! {
        () = script(hubs.clone(), buckets) => {}
        () = first => panic!("an exchange ended"),
        () = second => panic!("an exchange ended"),
    }
}

fn client(session: &str) -> StreamClient {
    let address = ClientAddress::of(std::net::IpAddr::from([192, 0, 2, 1]));
    StreamClient { session: ClientSession::new(session), ..StreamClient::from(address) }
}

async fn subscribe(hub: &Arc<Hub>, session: &str) -> Result<Subscription, TooManyStreams> {
    hub.acquaint(&client(session)).await;
    // It missed all changes, and so has more to hear than its bucket grants.
    hub.subscribe(client(session), Some("h-0"))
}

/// Events that a stream has at once.
async fn burst(stream: &mut Subscription) -> usize {
    let mut count = 0;
    while timeout(Duration::from_millis(50), stream.next()).await.is_ok() {
        count += 1;
    }
    count
}

#[tokio::test(start_paused = true)]
async fn a_session_that_goes_to_another_console_buys_no_new_burst() {
    on_two(async |[first, second], _| {
        let mut stream = subscribe(&first, "ada").await.unwrap();
        assert_eq!(burst(&mut stream).await, 5);
        sleep(Duration::from_millis(250)).await;
        let mut other = subscribe(&second, "ada").await.unwrap();
        assert_eq!(burst(&mut other).await, 0);
        let mut of_another = subscribe(&second, "bob").await.unwrap();
        assert_eq!(burst(&mut of_another).await, 5);
        // Both wait for one token.
        let (began, mut events) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(100) {
            events += burst(&mut stream).await + burst(&mut other).await;
        }
        assert!((9..=11).contains(&events), "{events} in 100 s at one every ten");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_opens_streams_too_often_is_refused_by_each_console() {
    on_two(async |[first, second], _| {
        for _ in 0..4 {
            subscribe(&first, "ada").await.unwrap();
        }
        sleep(Duration::from_millis(250)).await;
        let refused = subscribe(&second, "ada").await.map(drop);
        assert!(matches!(refused, Err(TooManyStreams::TooOften(_))), "{refused:?}");
        subscribe(&second, "bob").await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn while_the_server_does_not_answer_each_console_goes_on_with_its_own_buckets() {
    let (log, _guard) = Log::of_this_thread();
    on_two(async |[first, second], buckets| {
        let failed = || first.look(|registry| registry.counts().exchanges_failed);
        let mut stream = subscribe(&first, "ada").await.unwrap();
        assert_eq!((burst(&mut stream).await, failed()), (5, 0));
        sleep(Duration::from_millis(250)).await;
        buckets.set_lost(true);
        let began = Instant::now();
        let mut other = subscribe(&second, "ada").await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!((burst(&mut other).await, burst(&mut stream).await), (5, 0));
        sleep(Duration::from_secs(2)).await;
        assert!(failed() > 3, "{}", failed());
        buckets.set_lost(false);
        sleep(Duration::from_millis(600)).await;
        let lost = failed();
        sleep(Duration::from_secs(10)).await;
        assert_eq!(failed(), lost);
        let mut new = subscribe(&first, "bob").await.unwrap();
        assert_eq!(burst(&mut new).await, 5);
        sleep(Duration::from_millis(250)).await;
        let mut new = subscribe(&second, "bob").await.unwrap();
        assert_eq!(burst(&mut new).await, 0);
    })
    .await;
    let log = log.text();
    for said in ["do not answer: it paces by its own", "answer again"] {
        assert_eq!(log.matches(said).count(), 2, "once of each console: {log}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_console_that_shares_with_nobody_lets_no_client_wait() {
    let hub = hub();
    let began = Instant::now();
    let mut stream = subscribe(&hub, "ada").await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(burst(&mut stream).await, 5);
}
