//! One client's SMTP dialogue as a state machine: bytes in, answers and events out.
//!
//! RFC 5321 and 6409 (submission), with STARTTLS (3207), AUTH (4954), ENHANCEDSTATUSCODES (2034, 3463), SIZE (1870),
//! PIPELINING (2920), CHUNKING (3030), 8BITMIME (6152) and SMTPUTF8 (6531).
//!
//! SMTPUTF8 is announced, although SES takes no address that is not ASCII: a client that is not offered it does not
//! even ask, and fails with a text of its own. So it asks, and learns the reason from 5.6.7, with 550 for a sender and
//! 553 for a recipient: RFC 6531 (section 3.5) has these for addresses that a server does not permit.

mod commands;
mod content;

use std::fmt::Write as _;
use std::mem::{replace, take};

use smtp_proto::request::receiver::{BdatReceiver, DataReceiver};
use smtp_proto::{Error, Request};

use crate::redact::AddressVisibility;
use crate::relay::refusal::Refusal;
use crate::relay::submission::SmtpMail;

/// Most recipients of one mail. A server must take 100 (RFC 5321, section 4.5.3.1.8); Postfix and others take 1,000.
pub(super) const MOST_RECIPIENTS: usize = 1_000;
/// Commands that are unknown or not understood, after which the dialogue ends.
const MOST_MISTAKES: u32 = 10;
/// Wrong passwords after which the dialogue ends.
const MOST_FAILED_LOGINS: u32 = 3;
/// Bytes of a command with its CRLF (RFC 5321, section 4.5.3.1.4).
const COMMAND_BYTES: usize = 512;
/// Bytes of MAIL and RCPT: the parameters of the extensions come on top (AUTH's alone with 500).
const ADDRESS_COMMAND_BYTES: usize = 2_048;
/// Bytes of a line in an exchange of AUTH (RFC 4954, section 4).
const LOGIN_BYTES: usize = 12_288;
/// Once so many bytes of answers wait, they are written before the next command is read.
const MOST_ANSWERS: usize = 4_096;
/// Bytes of a line of an answer, of the 512 that RFC 5321 allows.
const ANSWER_BYTES: usize = 400;
/// More digits of a chunk's size are no size.
const MOST_DIGITS: usize = 18;
const BARE: &str = "554 5.5.2 a line ends with CR and LF: a CR or LF alone is not taken";
const NO_MEMORY: &str = "452 4.3.1 too much mail is being received at once: try again";

/// Settings of a server, as a dialogue needs them.
#[derive(Clone, Debug, Default)]
pub(super) struct SmtpTerms {
    /// The server's name in its greeting.
    pub(super) host: String,
    /// Most bytes of a mail.
    pub(super) most_bytes: usize,
    /// STARTTLS can be had.
    pub(super) offers_tls: bool,
    /// Mail is taken after a login only.
    pub(super) asks_login: bool,
}

/// The name and the password that a client gives.
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
}

/// A thing that only the server can do. The dialogue goes on once it was told how that went.
pub(super) enum Event {
    /// The handshake begins once the answers are written. Then: [`Dialogue::secured`].
    StartTls,
    /// Then: [`Dialogue::logged_in`].
    Login(Credentials),
    /// Then: [`Dialogue::submitted`].
    Submit(SmtpMail),
}

/// The bytes that a dialogue expects next.
#[derive(Default)]
enum DialogueStage {
    #[default]
    Command,
    Login(LoginStep),
    Content(Content),
    /// None: the server is to tell how an event went.
    Waiting,
    Over,
}

enum LoginStep {
    /// AUTH PLAIN's only line.
    Plain,
    User,
    /// Of the user.
    Password(String),
}

/// The content of a mail, or a chunk of it, while it comes. Without a transaction it is read and thrown away.
struct Content {
    receiver: Receiver,
    /// The answer to one that is thrown away; none if it has too many bytes.
    fault: Option<&'static str>,
    /// Bytes of the mail until now.
    bytes: usize,
}

enum Receiver {
    /// DATA's lines.
    Lines(DataReceiver),
    /// BDAT's chunk.
    Chunk(BdatReceiver),
}

/// A mail from MAIL to its end.
#[derive(Default)]
struct Transaction {
    from: String,
    to: Vec<String>,
    data: Vec<u8>,
    /// A chunk of it has come.
    is_chunked: bool,
}

#[derive(Default)]
pub(super) struct Dialogue {
    terms: SmtpTerms,
    stage: DialogueStage,
    /// The connection is encrypted.
    is_secure: bool,
    /// EHLO or HELO was said.
    is_greeted: bool,
    user: Option<String>,
    transaction: Option<Transaction>,
    /// The begin of a line whose end has not come.
    line: Vec<u8>,
    /// The answers that are to be written now: the server takes them.
    pub(super) answers: String,
    mistakes: u32,
    failed_logins: u32,
    /// As [`Dialogue::input`] was told.
    has_room: bool,
}

impl Dialogue {
    /// Begins with the greeting.
    pub(super) fn new(terms: SmtpTerms, is_secure: bool) -> Self {
        let answers = format!("220 {} ESMTP Tidegate\r\n", terms.host);
        Self { terms, is_secure, answers, ..Self::default() }
    }

    /// Reads from `bytes` and moves it forward: to its end, to an event, or until answers are to be written.
    ///
    /// `has_room` says whether there is memory for [`Dialogue::wants`].
    pub(super) fn input(&mut self, bytes: &mut &[u8], has_room: bool) -> Option<Event> {
        self.has_room = has_room;
        let mut event = None;
        while event.is_none() && !bytes.is_empty() && self.answers.len() < MOST_ANSWERS {
            event = match self.stage {
                DialogueStage::Command | DialogueStage::Login(_) => self.line(bytes),
                DialogueStage::Content(_) => self.content(bytes),
                DialogueStage::Waiting | DialogueStage::Over => break,
            };
        }
        event
    }

    /// Nothing more is read: after the answers the connection ends.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, DialogueStage::Over)
    }

    /// A mail's content is being received.
    pub(super) fn is_receiving(&self) -> bool {
        let is_chunked = self.transaction.as_ref().is_some_and(|mail| mail.is_chunked);
        is_chunked || matches!(self.stage, DialogueStage::Content(_))
    }

    /// Bytes of memory that the dialogue holds at most after `more` bytes of input.
    pub(super) fn wants(&self, more: usize) -> usize {
        self.transaction.as_ref().map_or(more, |mail| {
            let recipients = mail.to.iter().map(|to| to.capacity() + size_of::<String>());
            recipients.sum::<usize>() + content::capacity(&mail.data, more)
        })
    }

    /// The connection is encrypted now. What was said before counts no longer (RFC 3207, section 4.2).
    pub(super) fn secured(&mut self) {
        let terms = take(&mut self.terms);
        *self = Self { terms, is_secure: true, ..Self::default() };
    }

    /// The credentials were right: those of this user.
    pub(super) fn logged_in(&mut self, user: Option<String>) {
        self.stage = DialogueStage::Command;
        self.user = user;
        if self.user.is_some() {
            return self.answer("235 2.7.0 logged in");
        }
        self.answer("535 5.7.8 user or password is wrong");
        self.failed_logins += 1;
        if self.failed_logins == MOST_FAILED_LOGINS {
            self.close("421 4.7.0 too many failed logins");
        }
    }

    /// The mail's identity, or why it was not taken.
    pub(super) fn submitted(&mut self, result: Result<String, Refusal>) {
        self.stage = DialogueStage::Command;
        match result {
            Ok(identity) => self.answer(&format!("250 2.0.0 queued as {identity}")),
            Err(refusal) => self.refuse(&refusal),
        }
    }

    /// Ends the dialogue with an answer.
    pub(super) fn close(&mut self, answer: &str) {
        self.answer(answer);
        self.transaction = None;
        self.stage = DialogueStage::Over;
    }

    /// Writes an answer such as `250 2.1.0 sender taken`, in lines of [`ANSWER_BYTES`]; whatever is not ASCII becomes a
    /// question mark.
    fn answer(&mut self, answer: &str) {
        let answer = answer.replace('…', "...").replace(['\r', '\n', '\t'], " ");
        let answer = answer.replace(|c| !matches!(c, ' '..='~'), "?");
        // A code and an enhanced status code begin every line.
        let (code, text) = answer.split_once(' ').unwrap_or_default();
        let (status, text) = text.split_once(' ').unwrap_or_default();
        let mut rest = text.trim();
        let mut mark = '-';
        while mark == '-' {
            let end = rest.get(..ANSWER_BYTES).map(|line| line.rfind(' ').unwrap_or(ANSWER_BYTES));
            let (line, more) = rest.split_at(end.unwrap_or(rest.len()));
            mark = if more.is_empty() { ' ' } else { '-' };
            let _ = write!(self.answers, "{code}{mark}{status} {line}\r\n");
            rest = more.trim_start();
        }
    }

    fn refuse(&mut self, refusal: &Refusal) {
        let code = match refusal {
            Refusal::Invalid(_) => "554 5.6.0",
            Refusal::NotAllowed(_) => "550 5.7.1",
            Refusal::TooLarge { .. } => "552 5.3.4",
            Refusal::Busy(_) => "451 4.3.0",
        };
        self.answer(&format!("{code} {refusal}"));
    }

    /// Reads up to the end of a line. Of one that is too long, only so much is kept that this can be seen.
    fn line(&mut self, bytes: &mut &[u8]) -> Option<Event> {
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let (piece, rest) = bytes.split_at(end);
        *bytes = rest;
        let room = (LOGIN_BYTES + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
        if !piece.ends_with(b"\n") {
            return None;
        }
        let line = take(&mut self.line);
        if let DialogueStage::Login(step) = replace(&mut self.stage, DialogueStage::Command) {
            let text = self.checked(&line, LOGIN_BYTES)?;
            return self.login_line(step, text);
        }
        let word = line.trim_ascii_start().get(..4).unwrap_or_default().to_ascii_uppercase();
        let most = match &word[..] {
            b"AUTH" => LOGIN_BYTES,
            b"MAIL" | b"RCPT" => ADDRESS_COMMAND_BYTES,
            // GET, POST and the other methods of HTTP, and PRI, with which HTTP/2 begins.
            b"GET " | b"POST" | b"PUT " | b"HEAD" | b"OPTI" | b"DELE" | b"PATC" | b"PRI " => {
                self.close("554 5.5.1 this is a mail server: it does not speak HTTP");
                return None;
            }
            _ => COMMAND_BYTES,
        };
        self.checked(&line, most)?;
        let request = Request::parse(&mut line.iter());
        let digits = line.iter().filter(|byte| byte.is_ascii_digit()).count();
        if word == b"BDAT" && (request.is_err() || digits > MOST_DIGITS) {
            // The bytes of such a chunk would be read as commands.
            self.close("501 5.5.4 expected is BDAT chunk-size [LAST]");
            return None;
        }
        match request {
            Ok(request) => return self.command(request, bytes),
            Err(error) => self.misunderstood(&error),
        }
        None
    }

    /// The text of a line that has an allowed length and end; else the client gets the answer.
    fn checked<'a>(&mut self, line: &'a [u8], most: usize) -> Option<&'a [u8]> {
        if line.len() > most {
            self.answer(&format!("500 5.5.2 a line like this has at most {most} bytes"));
            self.mistake();
            return None;
        }
        let text = line.strip_suffix(b"\r\n").filter(|text| !text.contains(&b'\r'));
        if text.is_none() {
            self.close(BARE);
        }
        text
    }

    fn misunderstood(&mut self, error: &Error) {
        let masked = |text: &str| AddressVisibility::Masked.within(text);
        let answer: &str = match error {
            Error::InvalidSenderAddress => "553 5.1.7 the sender is no address like a@example.com",
            Error::InvalidRecipientAddress => {
                "553 5.1.3 the recipient is no address like a@example.com"
            }
            Error::UnsupportedParameter { param } => {
                &format!("555 5.5.4 {} is not known", masked(param))
            }
            Error::InvalidParameter { param } => &format!("501 5.5.4 {param} has a wrong value"),
            Error::SyntaxError { syntax } => &format!("501 5.5.4 expected is {syntax}"),
            Error::UnknownCommand => "500 5.5.1 there is no such command",
            _ => "501 5.5.2 the command is incomplete",
        };
        self.answer(answer);
        // A list may well have many addresses that are none.
        if !answer.starts_with("55") {
            self.mistake();
        }
    }

    fn mistake(&mut self) {
        self.mistakes += 1;
        if self.mistakes == MOST_MISTAKES {
            self.close("421 4.7.0 too many commands that are not understood");
        }
    }
}
