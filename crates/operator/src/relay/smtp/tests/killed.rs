use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::sync::watch;
use tokio::time::sleep;

use super::super::{Encryption, SmtpServer};
use super::server::{PEER, settings};
use crate::relay::refusal::Refusal;
use crate::relay::submission::{SmtpMail, Submit};

/// Acknowledges a mail in the middle of its submission; before and after it waits.
#[derive(Default)]
struct SlowQueue {
    acknowledged: Mutex<Vec<String>>,
}

impl Submit for SlowQueue {
    async fn submit(&self, submission: SmtpMail) -> Result<String, Refusal> {
        sleep(Duration::from_millis(3)).await;
        tokio::task::yield_now().await;
        let identity = String::from_utf8(submission.data).unwrap().trim().to_owned();
        self.acknowledged.lock().unwrap().push(identity.clone());
        tokio::task::yield_now().await;
        sleep(Duration::from_millis(3)).await;
        Ok(identity)
    }
}

/// A dialogue of three mails with a server that is dropped when it is polled for the nth time. True if that was not reached.
async fn outlives(polls: usize, buffer: usize) -> bool {
    let queue = Arc::new(SlowQueue::default());
    let server = SmtpServer::new(settings(), Arc::clone(&queue));
    let (mut ours, theirs) = duplex(buffer);
    let (_stopping, stopped) = watch::channel(false);
    let client = async {
        let mut heard = Vec::new();
        let content = |name: &str| format!("DATA\r\n{name}\r\n.\r\n");
        let begin = "MAIL FROM:<news@example.org>\r\nRCPT TO:<ada@example.com>\r\n";
        let said = [
            "EHLO app\r\n".to_owned(),
            begin.to_owned() + &content("first"),
            begin.to_owned() + "BDAT 3\r\nsecBDAT 5 LAST\r\nond\r\n",
            begin.to_owned() + &content("third"),
            "QUIT\r\n".to_owned(),
        ]
        .concat();
        let (mut answers, mut commands) = tokio::io::split(&mut ours);
        let speaks = async {
            // Fails once the server is gone.
            let _ = commands.write_all(said.as_bytes()).await;
        };
        let hears = answers.read_to_end(&mut heard);
        let _ = tokio::join!(speaks, hears);
        String::from_utf8(heard).unwrap()
    };
    let killed = async {
        let mut connection =
            Box::pin(server.connection(theirs, PEER, Encryption::StartTls, stopped));
        let mut left = polls;
        std::future::poll_fn(|context| {
            if left == 0 {
                return Poll::Ready(false);
            }
            left -= 1;
            pin!(&mut connection).poll(context).map(|()| true)
        })
        .await
    };
    let (is_alive, heard) = tokio::join!(killed, client);
    let acknowledged = queue.acknowledged.lock().unwrap();
    let answered: Vec<_> =
        heard.lines().filter_map(|line| line.strip_prefix("250 2.0.0 queued as ")).collect();
    for identity in &answered {
        let count = acknowledged.iter().filter(|of| of == identity).count();
        // The last line may be cut: an answer without its end is none.
        assert!(
            count == 1 || !heard.ends_with('\n'),
            "after {polls} polls {identity} was answered, and is on no queue"
        );
    }
    if is_alive {
        assert_eq!(answered, ["first", "second", "third"]);
    }
    is_alive
}

#[tokio::test(start_paused = true)]
async fn wherever_the_server_is_killed_a_mail_that_was_answered_is_on_its_queue() {
    for buffer in [16, 100_000] {
        let mut polls = 0;
        while !outlives(polls, buffer).await {
            polls += 1;
            assert!(polls < 10_000);
        }
        assert!(polls > 8, "{polls} polls in all");
    }
}
