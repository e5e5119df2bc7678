//! What the poller's log says, and what it must not.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_memory::{Fault, Operation, Rule, failures};
use tidegate_tests::simulation::{Settings, World};

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Regression: the hold's event held SES's message, which names the addresses that failed.
#[tokio::test(start_paused = true)]
async fn no_event_of_a_refused_a_held_or_a_sent_mail_holds_an_address() {
    let log = Log::default();
    let lines = log.clone();
    let subscriber = tracing_subscriber::fmt().json().with_writer(move || lines.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let world = World::new(Settings::new(20.0, true));
    world.fill("big", 60).await;
    world.fill("small", 20).await;
    let unverified = Rule::new(Fault::Before(failures::not_verified())).on(Operation::Mail);
    world.mail_faults.add(unverified.at("small/"));
    world.run(10).await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for event in ["\"sent\"", "\"not sent\"", "sending is held"] {
        assert!(text.contains(event), "{event} is not logged");
    }
    let told: Vec<&str> = text.lines().filter(|line| line.contains('@')).collect();
    assert!(told.is_empty(), "{told:?}");
}
