//! The commands but for the content: greeting, TLS, login, envelope.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use smtp_proto::request::receiver::BdatReceiver;
use smtp_proto::{
    AUTH_LOGIN, AUTH_PLAIN, MAIL_BODY_7BIT, MAIL_BODY_8BITMIME, MAIL_SMTPUTF8, MailFrom, RcptTo,
    Request,
};
use tidegate_core::email::Address;

use super::{
    Credentials, Dialogue, DialogueStage, Event, LoginStep, MOST_RECIPIENTS, NO_MEMORY, SmtpTerms,
    Transaction,
};
use crate::redact::AddressVisibility;
use crate::relay::refusal::Refusal;

const CANCELLED: &str = "501 5.7.0 the login is cancelled";
const NO_LOGIN: &str = "501 5.5.2 this is no user or password of PLAIN or LOGIN in base64";

impl Dialogue {
    pub(super) fn command(&mut self, asked: Request<Cow<str>>, rest: &mut &[u8]) -> Option<Event> {
        match asked {
            Request::Ehlo { .. } => self.greeted(true),
            Request::Helo { .. } => self.greeted(false),
            Request::StartTls => return self.start_tls(rest),
            Request::Auth { mechanism, initial_response } => {
                return self.auth(mechanism, initial_response.as_bytes());
            }
            Request::Mail { from } => self.mail(&from),
            Request::Rcpt { to } => self.recipient(&to),
            Request::Data => self.data(),
            Request::Bdat { chunk_size, is_last } => {
                return self.chunk(BdatReceiver::new(chunk_size, is_last), rest);
            }
            Request::Rset => {
                self.transaction = None;
                self.answer("250 2.0.0 forgotten");
            }
            Request::Noop { .. } => self.answer("250 2.0.0 nothing done"),
            Request::Vrfy { .. } => self.answer("252 2.0.0 sending shows whether it exists"),
            Request::Help { .. } => self.answer("214 2.0.0 as in RFC 5321, and as EHLO says"),
            Request::Quit => self.close("221 2.0.0 bye"),
            _ => self.answer(&format!("502 5.5.1 {} is not offered", asked.name())),
        }
        None
    }

    /// Answers EHLO, with the extensions, or HELO. Both have no enhanced status code (RFC 2034).
    fn greeted(&mut self, is_extended: bool) {
        self.is_greeted = true;
        self.transaction = None;
        let SmtpTerms { host, most_bytes, offers_tls, asks_login } = &self.terms;
        let _ = if is_extended {
            let tls = if *offers_tls && !self.is_secure { "250-STARTTLS\r\n" } else { "" };
            let can_login = *asks_login && self.is_secure;
            let login = if can_login { "250-AUTH PLAIN LOGIN\r\n" } else { "" };
            write!(
                self.answers,
                "250-{host}\r\n250-PIPELINING\r\n250-SIZE {most_bytes}\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n\
                 250-CHUNKING\r\n{tls}{login}250 ENHANCEDSTATUSCODES\r\n"
            )
        } else {
            write!(self.answers, "250 {host}\r\n")
        };
    }

    /// Commands that came with STARTTLS were not encrypted, and would be taken for ones that were (CVE-2011-0411): they
    /// end the dialogue.
    fn start_tls(&mut self, rest: &[u8]) -> Option<Event> {
        if self.is_secure || !self.terms.offers_tls {
            self.answer("503 5.5.1 STARTTLS is not offered now");
        } else if !rest.is_empty() {
            self.close("554 5.5.1 nothing may follow STARTTLS before its answer");
        } else {
            self.answer("220 2.0.0 begin TLS");
            self.stage = DialogueStage::Waiting;
            return Some(Event::StartTls);
        }
        None
    }

    fn auth(&mut self, mechanism: u64, initial: &[u8]) -> Option<Event> {
        let (step, challenge) = match mechanism {
            AUTH_PLAIN => (LoginStep::Plain, ""),
            // "Username:" in base64.
            _ => (LoginStep::User, "VXNlcm5hbWU6"),
        };
        if !self.terms.asks_login {
            self.answer("502 5.5.1 mail is taken without a login here");
        } else if !self.is_secure {
            self.answer("538 5.7.11 a login needs TLS: STARTTLS first");
        } else if !self.is_greeted || self.user.is_some() || self.transaction.is_some() {
            self.answer("503 5.5.1 AUTH comes once, between EHLO and MAIL");
        } else if mechanism != AUTH_PLAIN && mechanism != AUTH_LOGIN {
            self.answer("504 5.5.4 AUTH takes PLAIN or LOGIN");
        } else if !initial.is_empty() {
            // An equals sign alone stands for an empty response.
            return self.login_line(step, if initial == b"=" { b"" } else { initial });
        } else {
            self.challenge(challenge, step);
        }
        None
    }

    fn challenge(&mut self, challenge: &str, step: LoginStep) {
        let _ = write!(self.answers, "334 {challenge}\r\n");
        self.stage = DialogueStage::Login(step);
    }

    /// A line of an exchange of AUTH, without its end.
    pub(super) fn login_line(&mut self, step: LoginStep, line: &[u8]) -> Option<Event> {
        let text = STANDARD.decode(line).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let parts: Vec<_> = text.iter().flat_map(|text| text.split('\0')).collect();
        let (user, password) = match (step, &parts[..]) {
            (LoginStep::User, [user]) => {
                // "Password:" in base64.
                self.challenge("UGFzc3dvcmQ6", LoginStep::Password((*user).to_owned()));
                return None;
            }
            (LoginStep::Password(user), [password]) => (user, *password),
            // `of` is in whose name the user acts (RFC 4616): only in their own.
            (LoginStep::Plain, [of, user, password]) if of.is_empty() || of == user => {
                ((*user).to_owned(), *password)
            }
            _ => {
                self.answer(if line == b"*" { CANCELLED } else { NO_LOGIN });
                return None;
            }
        };
        self.stage = DialogueStage::Waiting;
        Some(Event::Login(Credentials { user, password: password.to_owned() }))
    }

    fn mail(&mut self, from: &MailFrom<Cow<'_, str>>) {
        let MailFrom { flags, size, .. } = *from;
        // AUTH says who wrote the mail, as another server knows it (RFC 4954, section 5): nobody needs that here.
        let (address, auth) = (from.address.clone(), from.auth.clone());
        let flags = flags & (MAIL_BODY_7BIT | MAIL_BODY_8BITMIME | MAIL_SMTPUTF8);
        let taken = MailFrom { address, flags, size, auth, ..MailFrom::default() };
        if !self.is_greeted || self.transaction.is_some() {
            self.answer("503 5.5.1 MAIL comes once, after EHLO");
        } else if self.terms.asks_login && self.user.is_none() {
            let first = if self.is_secure { "AUTH" } else { "STARTTLS, then AUTH" };
            self.answer(&format!("530 5.7.0 mail is taken after a login: {first}"));
        } else if *from != taken {
            let names = "SIZE, BODY=7BIT, BODY=8BITMIME, SMTPUTF8 and AUTH";
            self.answer(&format!("555 5.5.4 MAIL takes {names}, and no other parameter"));
        } else if size > self.terms.most_bytes {
            self.refuse(&Refusal::TooLarge { bytes: size, most: self.terms.most_bytes });
        } else if from.address.is_empty() {
            self.answer("550 5.7.1 the sender <> is not taken: SES needs one that it has verified");
        } else {
            let codes = if from.address.is_ascii() { "553 5.1.7" } else { "550 5.6.7" };
            match checked_address(&from.address) {
                Ok(from) => {
                    self.transaction = Some(Transaction { from, ..Transaction::default() });
                    self.answer("250 2.1.0 sender taken");
                }
                Err(fault) => self.answer(&format!("{codes} the sender {fault}")),
            }
        }
    }

    fn recipient(&mut self, to: &RcptTo<Cow<'_, str>>) {
        let taken = RcptTo { address: to.address.clone(), ..RcptTo::default() };
        let Some(mail) = self.transaction.as_mut().filter(|mail| !mail.is_chunked) else {
            return self.answer("503 5.5.1 RCPT comes after MAIL and before the content");
        };
        if mail.to.len() == MOST_RECIPIENTS {
            let text = format!("452 4.5.3 a mail has at most {MOST_RECIPIENTS} recipients");
            return self.answer(&text);
        }
        if !self.has_room {
            return self.answer(NO_MEMORY);
        }
        if *to != taken {
            return self.answer("555 5.5.4 RCPT takes no parameters");
        }
        let codes = if to.address.is_ascii() { "553 5.1.3" } else { "553 5.6.7" };
        match checked_address(&to.address) {
            Ok(address) => {
                mail.to.push(address);
                self.answer("250 2.1.5 recipient taken");
            }
            Err(fault) => self.answer(&format!("{codes} the recipient {fault}")),
        }
    }
}

/// An address as SES takes it, or what is wrong with it. The parser takes quotes off a local part that needs them.
fn checked_address(given: &str) -> Result<String, String> {
    let (local, domain) = given.rsplit_once('@').unwrap_or_default();
    let quoted = local.replace('\\', "\\\\").replace('"', "\\\"");
    let address = Address::parse(given)
        .or_else(|error| Address::parse(&format!("\"{quoted}\"@{domain}")).map_err(|_| error));
    let shown = AddressVisibility::Masked.one(given);
    address.map(|of| of.addr_spec().to_owned()).map_err(|error| format!("{shown} {error}"))
}
