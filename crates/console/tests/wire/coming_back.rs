//! A client that reconnects is told what it missed.

use super::client::{Ask, Frame};
use super::stack::{Server, defaults};
use super::{client, publish, rest, seqs, soon};

/// The frames that a client gets that comes with a last id: in the header, or in the query.
async fn come(server: &Server, header: Option<&str>, query: Option<&str>) -> Vec<Frame> {
    let query = query.map(|id| format!("?last_event_id={id}")).unwrap_or_default();
    let ask = Ask { query: &query, last_event_id: header, ..Ask::from(client(2)) };
    let mut stream = ask.open(server.address).await;
    let first = soon(stream.next()).await;
    assert_eq!(first.event, "state");
    rest(&server.hub, &mut stream).await
}

fn told(frames: &[Frame]) -> Vec<Option<u64>> {
    frames.iter().map(Frame::seq).collect()
}

#[tokio::test]
async fn who_comes_back_gets_what_it_missed_in_order() {
    let server = Server::start(defaults(), 2).await;
    publish(&server.hub, 5);
    let mut stream = Ask::from(client(2)).open(server.address).await;
    let mut last = soon(stream.next()).await.id.unwrap();
    assert!(last.ends_with("-5"), "{last}");
    publish(&server.hub, 4);
    for seq in [6, 7] {
        let frame = soon(stream.next()).await;
        assert_eq!(frame.seq(), Some(seq));
        last = frame.id.unwrap();
    }
    // 8 and 9 may be on their way: they were not read.
    drop(stream);
    publish(&server.hub, 1);
    let missed = [Some(8), Some(9), Some(10)];
    assert_eq!(told(&come(&server, Some(&last), None).await), missed);
    assert_eq!(told(&come(&server, None, Some(&last)).await), missed);
    let newest = last.replace("-7", "-10");
    // A browser's own return says it in the header, whatever the page's URL still says.
    assert_eq!(told(&come(&server, Some(&newest), Some(&last)).await), []);
    assert_eq!(told(&come(&server, Some(&last), Some(&newest)).await), missed);
    let counts = server.hub.look(|registry| registry.counts.clone());
    assert_eq!((counts.reconnects, counts.replayed, counts.gaps), (4, 9, 0));
}

#[tokio::test]
async fn who_comes_from_another_history_is_told_that_nobody_knows_what_it_missed() {
    let server = Server::start(defaults(), 2).await;
    publish(&server.hub, 3);
    for foreign in ["ffffffff0-2", "nonsense"] {
        let frames = come(&server, Some(foreign), None).await;
        let [gap] = &frames[..] else { panic!("{frames:?}") };
        assert_eq!((gap.event.as_str(), &gap.id), ("gap", &None));
        assert_eq!(gap.json()["missed"], serde_json::Value::Null);
    }
}

#[tokio::test]
async fn who_was_away_for_longer_than_is_kept_is_told_how_many_are_missing() {
    let server = Server::start(defaults(), 2).await;
    let history = server.hub.look(|registry| registry.history.name().to_owned());
    // 1,000 are kept, and 200 of them may wait for a stream.
    publish(&server.hub, 1_004);
    let ask = Ask { last_event_id: Some(&format!("{history}-2")), ..Ask::from(client(2)) };
    let mut stream = ask.open(server.address).await;
    assert_eq!(soon(stream.next()).await.event, "state");
    let gap = soon(stream.next()).await;
    assert_eq!((gap.event.as_str(), gap.id.as_deref()), ("gap", None));
    assert_eq!(gap.json()["missed"], 2 + 800);
    assert_eq!(seqs(&mut stream, 3).await, [805, 806, 807]);
}
