//! The content of a mail, as it comes by DATA or BDAT.

use std::mem::replace;

use smtp_proto::request::receiver::{BdatReceiver, DataReceiver};

use super::{BARE, Content, Dialogue, DialogueStage, Event, NO_MEMORY, Receiver};
use crate::relay::refusal::Refusal;
use crate::relay::submission::SmtpMail;

impl Dialogue {
    pub(super) fn data(&mut self) {
        let mail = self.transaction.as_ref();
        if !mail.is_some_and(|mail| !mail.is_chunked && !mail.to.is_empty()) {
            return self.answer("503 5.5.1 DATA comes after MAIL and a recipient that was taken");
        }
        let mut lines = DataReceiver::new();
        // The CRLF of DATA begins the end of an empty mail, CRLF.CRLF (RFC 5321, section 4.1.1.4).
        lines.ingest(&mut b"\r\n".iter(), &mut Vec::new());
        let receiver = Receiver::Lines(lines);
        self.stage = DialogueStage::Content(Content { receiver, fault: None, bytes: 0 });
        self.answers += "354 send the mail, and a dot on a line of its own\r\n";
    }

    /// BDAT: its bytes come without being asked for, and are read whatever is wrong.
    pub(super) fn chunk(&mut self, receiver: BdatReceiver, rest: &mut &[u8]) -> Option<Event> {
        self.transaction.take_if(|mail| mail.to.is_empty());
        let (fault, bytes) = match &mut self.transaction {
            Some(mail) => {
                mail.is_chunked = true;
                (None, mail.data.len())
            }
            None => (Some("503 5.5.1 BDAT comes after MAIL and a recipient that was taken"), 0),
        };
        self.stage =
            DialogueStage::Content(Content { receiver: Receiver::Chunk(receiver), fault, bytes });
        self.content(rest)
    }

    /// Reads up to the end of the content.
    pub(super) fn content(&mut self, bytes: &mut &[u8]) -> Option<Event> {
        let DialogueStage::Content(content) = &mut self.stage else { return None };
        if !self.has_room && self.transaction.take().is_some() {
            content.fault = Some(NO_MEMORY);
        }
        // The CR of a line with a dot alone is pushed, and popped if an LF follows, perhaps with the next bytes.
        let mut thrown_away = vec![b'\r'];
        let data = self.transaction.as_mut().map_or(&mut thrown_away, |mail| &mut mail.data);
        data.reserve_exact(capacity(data, bytes.len()) - data.len());
        let (before, last) = (data.len(), data.last().copied());
        let mut left = bytes.iter();
        let (is_complete, is_last) = match &mut content.receiver {
            Receiver::Lines(lines) => (lines.ingest(&mut left, data), true),
            Receiver::Chunk(chunk) => (chunk.ingest(&mut left, data), chunk.is_last),
        };
        content.bytes = content.bytes + data.len() - before;
        let (taken, rest) = bytes.split_at(bytes.len() - left.len());
        *bytes = rest;
        let is_cut = is_complete && is_last && data.last() == Some(&b'\r');
        if self.transaction.is_some() && (is_bare(last, taken) || is_cut) {
            self.close(BARE);
            return None;
        }
        if content.bytes > self.terms.most_bytes + usize::from(!is_complete) {
            self.transaction = None;
        }
        if is_complete { self.received(is_last) } else { None }
    }

    /// A content, or a chunk of one, is complete.
    fn received(&mut self, is_last: bool) -> Option<Event> {
        let stage = replace(&mut self.stage, DialogueStage::Command);
        let DialogueStage::Content(Content { fault, bytes, .. }) = stage else { return None };
        match (self.transaction.take(), fault) {
            (Some(mail), _) if is_last => {
                self.stage = DialogueStage::Waiting;
                let (user, from, to, data) = (self.user.clone(), mail.from, mail.to, mail.data);
                return Some(Event::Submit(SmtpMail { user, from, to, data }));
            }
            (Some(mail), _) => {
                self.transaction = Some(mail);
                self.answer(&format!("250 2.0.0 {bytes} bytes received"));
            }
            (None, Some(answer)) => self.answer(answer),
            (None, None) => self.refuse(&Refusal::TooLarge { bytes, most: self.terms.most_bytes }),
        }
        None
    }
}

/// Bytes of memory of `data` once `more` have come: it doubles, so that growing costs little.
pub(super) fn capacity(data: &Vec<u8>, more: usize) -> usize {
    let needed = data.len() + more;
    if needed <= data.capacity() { data.capacity() } else { needed.max(2 * data.capacity()) }
}

/// Whether a CR or an LF stands alone: before the cases of SMTP smuggling of 2023 many servers took `\n.\r\n` and the
/// like for a mail's end, so that one mail became two on its way.
fn is_bare(before: Option<u8>, bytes: &[u8]) -> bool {
    let mut last = before.unwrap_or(b'\n');
    bytes.iter().any(|byte| (*byte == b'\n') != (replace(&mut last, *byte) == b'\r'))
}
