//! From the stack to the wire: the engine looks, and its streams tell.

use std::time::Duration;

use tidegate_core::control::{Hold, HoldReason};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::client::{Answer, Ask, Frame};
use super::stack::{Server, defaults, engine, world};
use super::{client, soon};

async fn until(stream: &mut Answer, event: &str) -> Frame {
    let found = async {
        loop {
            let frame = stream.next().await;
            if frame.event == event {
                return frame;
            }
        }
    };
    soon(found).await
}

#[tokio::test(start_paused = true)]
async fn what_changes_in_the_stack_is_told_within_a_look_and_figures_each_second() {
    let world = world(2);
    let (engine, shared) = engine(&world, defaults()).await;
    let server = Server::of(shared, None);
    let (stop, stopped) = oneshot::channel::<()>();
    let watching = async {
        let mut stream = Ask::from(client(2)).open(server.address).await;
        assert_eq!(soon(stream.next()).await.event, "state");
        sleep(Duration::from_secs(5)).await;
        let told = server.hub.look(|registry| registry.counts.sent["figures"]);
        assert!((4..=6).contains(&told), "{told} figures in 5 s");
        let detail = "by grace: typo".to_owned();
        let hold = Hold::new(&detail, world.universe.now());
        let is_held = world.control(|control| {
            control.hold(Some("campaign-2"), HoldReason::Paused, hold);
        });
        assert!(is_held.await.unwrap());
        let paused = until(&mut stream, "pause").await;
        assert_eq!(
            (paused.seq(), paused.json()["campaign"].as_str()),
            (Some(1), Some("campaign-2"))
        );
        let figures = until(&mut stream, "figures").await.json();
        assert_eq!(figures["status"]["holds"][0]["detail"], "by grace: typo");
        stop.send(()).unwrap();
        drop(stream);
        server.stop().await;
    };
    tokio::join!(engine.run(async { drop(stopped.await) }), watching);
}
