use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::dialogue::MOST_RECIPIENTS;
use super::{Rehearsal, SmtpTerms, terms};

/// Lines of a client begin with `C: `, those of the server with `S: `. The client waits for the server's lines.
fn plays(title: &str, rehearsal: &mut Rehearsal, script: &str) {
    let mut heard = rehearsal.hears();
    for line in script.lines().map(str::trim_start).filter(|line| !line.is_empty()) {
        if let Some(said) = line.strip_prefix("C: ") {
            assert_eq!(heard, "", "{title}, before {said}");
            rehearsal.says(format!("{said}\r\n"));
            heard = rehearsal.hears();
        } else {
            let expected = line.strip_prefix("S: ").unwrap();
            let (answer, rest) =
                heard.split_once("\r\n").unwrap_or_else(|| panic!("{title}: {expected}"));
            assert_eq!(answer, expected, "{title}");
            heard = rest.to_owned();
        }
    }
    assert_eq!(heard, "", "{title}, at the end");
}

const BEGUN: &str = "S: 220 relay.example.com ESMTP Tidegate
    C: HELO app
    S: 250 relay.example.com";

const NAMED: &str = "C: MAIL FROM:<news@example.org>
    S: 250 2.1.0 sender taken
    C: RCPT TO:<ada@example.com>
    S: 250 2.1.5 recipient taken";

#[test]
fn whatever_a_client_says_has_its_answer() {
    for part in include_str!("dialogues.txt").split("# ").skip(1) {
        let (title, script) = part.split_once('\n').unwrap();
        plays(title, &mut Rehearsal::plain(), &format!("{BEGUN}\n{script}"));
    }
}

fn with_login() -> SmtpTerms {
    SmtpTerms { offers_tls: true, asks_login: true, ..terms() }
}

#[test]
fn a_login_needs_tls_and_mail_needs_a_login() {
    let mut rehearsal = Rehearsal::new(with_login(), false);
    // "\0ada\0secret", "ada", "secret", "\0ada\0wrong", "bob\0ada\0secret".
    let script = "S: 220 relay.example.com ESMTP Tidegate
        C: EHLO app
        S: 250-relay.example.com
        S: 250-PIPELINING
        S: 250-SIZE 10000
        S: 250-8BITMIME
        S: 250-SMTPUTF8
        S: 250-CHUNKING
        S: 250-STARTTLS
        S: 250 ENHANCEDSTATUSCODES
        C: AUTH PLAIN AGFkYQBzZWNyZXQ=
        S: 538 5.7.11 a login needs TLS: STARTTLS first
        C: MAIL FROM:<news@example.org>
        S: 530 5.7.0 mail is taken after a login: STARTTLS, then AUTH
        C: STARTTLS
        S: 220 2.0.0 begin TLS
        C: MAIL FROM:<news@example.org>
        S: 503 5.5.1 MAIL comes once, after EHLO
        C: EHLO app
        S: 250-relay.example.com
        S: 250-PIPELINING
        S: 250-SIZE 10000
        S: 250-8BITMIME
        S: 250-SMTPUTF8
        S: 250-CHUNKING
        S: 250-AUTH PLAIN LOGIN
        S: 250 ENHANCEDSTATUSCODES
        C: STARTTLS
        S: 503 5.5.1 STARTTLS is not offered now
        C: MAIL FROM:<news@example.org>
        S: 530 5.7.0 mail is taken after a login: AUTH
        C: AUTH CRAM-MD5
        S: 504 5.5.4 AUTH takes PLAIN or LOGIN
        C: AUTH PLAIN
        S: 334 
        C: *
        S: 501 5.7.0 the login is cancelled
        C: AUTH PLAIN !
        S: 501 5.5.2 this is no user or password of PLAIN or LOGIN in base64
        C: AUTH PLAIN =
        S: 501 5.5.2 this is no user or password of PLAIN or LOGIN in base64
        C: AUTH PLAIN Ym9iAGFkYQBzZWNyZXQ=
        S: 501 5.5.2 this is no user or password of PLAIN or LOGIN in base64
        C: AUTH PLAIN AGFkYQB3cm9uZw==
        S: 535 5.7.8 user or password is wrong
        C: AUTH LOGIN
        S: 334 VXNlcm5hbWU6
        C: YWRh
        S: 334 UGFzc3dvcmQ6
        C: c2VjcmV0
        S: 235 2.7.0 logged in
        C: AUTH LOGIN YWRh
        S: 503 5.5.1 AUTH comes once, between EHLO and MAIL
        C: MAIL FROM:<news@example.org>
        S: 250 2.1.0 sender taken
        C: RCPT TO:<ada@example.com>
        S: 250 2.1.5 recipient taken
        C: BDAT 0 LAST
        S: 250 2.0.0 queued as m1";
    plays("login", &mut rehearsal, script);
    assert_eq!(rehearsal.submissions[0].user.as_deref(), Some("ada"));
}

#[test]
fn each_way_of_logging_in_works_and_three_wrong_ones_end_the_dialogue() {
    for exchange in [
        "AUTH PLAIN AGFkYQBzZWNyZXQ=\r\n",
        "AUTH PLAIN\r\nAGFkYQBzZWNyZXQ=\r\n",
        "auth login\r\nYWRh\r\nc2VjcmV0\r\n",
        "AUTH LOGIN YWRh\r\nc2VjcmV0\r\n",
    ] {
        let mut rehearsal = Rehearsal::new(with_login(), true);
        rehearsal.says(format!("EHLO app\r\n{exchange}"));
        assert!(rehearsal.hears().ends_with("\r\n235 2.7.0 logged in\r\n"), "{exchange}");
    }
    let mut rehearsal = Rehearsal::new(with_login(), true);
    rehearsal.says("HELO app\r\n".to_owned() + &"AUTH PLAIN AGFkYQB3cm9uZw==\r\n".repeat(4));
    let answers = rehearsal.hears();
    assert_eq!(answers.matches("535 5.7.8").count(), 3);
    assert!(answers.ends_with("421 4.7.0 too many failed logins\r\n"), "{answers}");
    assert!(rehearsal.dialogue.is_over());
}

#[test]
fn nothing_that_came_before_the_handshake_counts_after_it() {
    let mut rehearsal = Rehearsal::new(with_login(), false);
    rehearsal.says("EHLO app\r\nSTARTTLS\r\nMAIL FROM:<evil@example.org>\r\n");
    let answers = rehearsal.hears();
    assert!(
        answers.ends_with("554 5.5.1 nothing may follow STARTTLS before its answer\r\n"),
        "{answers}"
    );
    assert!(rehearsal.dialogue.is_over());

    let mut rehearsal = Rehearsal::new(SmtpTerms { offers_tls: true, ..terms() }, false);
    rehearsal.says("EHLO app\r\nMAIL FROM:<news@example.org>\r\nRCPT TO:<ada@example.com>\r\n");
    rehearsal.says("STARTTLS\r\n");
    rehearsal.hears();
    plays(
        "after",
        &mut rehearsal,
        "C: DATA
        S: 503 5.5.1 DATA comes after MAIL and a recipient that was taken
        C: MAIL FROM:<news@example.org>
        S: 503 5.5.1 MAIL comes once, after EHLO",
    );
}

#[test]
fn more_recipients_than_a_mail_may_have_are_to_be_tried_again() {
    let mut rehearsal = Rehearsal::plain();
    rehearsal.says("HELO app\r\nMAIL FROM:<news@example.org>\r\n");
    for number in 0..=MOST_RECIPIENTS {
        rehearsal.says(format!("RCPT TO:<r{number}@example.com>\r\n"));
    }
    assert_eq!(rehearsal.answers.matches("250 2.1.5").count(), MOST_RECIPIENTS);
    assert!(rehearsal.answers.contains("\r\n452 4.5.3 "));
    rehearsal.says("BDAT 0 LAST\r\n");
    assert_eq!(rehearsal.submissions[0].to.len(), MOST_RECIPIENTS);
}

#[test]
fn a_mail_that_is_too_large_is_refused_with_both_sizes_and_the_dialogue_goes_on() {
    let long = "x".repeat(9_998) + "\r\n";
    let chunk = "BDAT 1\r\ny";
    for content in [
        format!("DATA\r\n{long}y\r\n.\r\n"),
        format!("BDAT 10000\r\n{long}BDAT 3 LAST\r\ny\r\n"),
        format!("BDAT 10003 LAST\r\n{long}y\r\n"),
    ] {
        let begin = "HELO app\r\nMAIL FROM:<news@example.org>\r\nRCPT TO:<ada@example.com>\r\n";
        let said = begin.to_owned() + &content;
        let answers = played(terms(), said.as_bytes(), &[1]).hears();
        let mut rehearsal = Rehearsal::plain();
        rehearsal.says(&said);
        assert_eq!(rehearsal.hears(), answers, "however its bytes are cut");
        assert!(
            answers.ends_with("552 5.3.4 the mail has 10003 bytes; allowed are 10000\r\n"),
            "{answers}"
        );
        assert_eq!(rehearsal.dialogue.wants(0), 0);
        rehearsal.says(chunk);
        assert!(
            rehearsal.hears().starts_with("503 5.5.1 "),
            "a chunk after a refused one is thrown away"
        );
        plays("after", &mut rehearsal, &format!("{NAMED}\nC: NOOP\nS: 250 2.0.0 nothing done"));
        let said = format!("DATA\r\n{long}.\r\n");
        let whole = played(terms(), (begin.to_owned() + &said).as_bytes(), &[1]);
        rehearsal.says(said);
        for submission in [&whole.submissions[0], &rehearsal.submissions[0]] {
            assert_eq!(submission.data, long.as_bytes(), "the largest that is allowed");
        }
    }
}

#[test]
fn without_memory_mail_is_refused_for_now_and_nothing_is_held() {
    let mut rehearsal = Rehearsal::plain();
    rehearsal.says("HELO app\r\nMAIL FROM:<news@example.org>\r\nRCPT TO:<ada@example.com>\r\nDATA\r\nHello\r\n");
    rehearsal.has_room = false;
    rehearsal.says("again\r\n");
    assert_eq!(rehearsal.dialogue.wants(0), 0);
    rehearsal.hears();
    rehearsal.says(".\r\nMAIL FROM:<news@example.org>\r\nBDAT 2 LAST\r\n\r\nNOOP\r\n");
    let answers = rehearsal.hears();
    let codes: Vec<_> = answers.lines().map(|line| &line[..9]).collect();
    assert_eq!(codes, ["452 4.3.1", "250 2.1.0", "503 5.5.1", "250 2.0.0"]);
    rehearsal.has_room = true;
    plays("after", &mut rehearsal, NAMED);
    rehearsal.has_room = false;
    rehearsal.says("RCPT TO:<bob@example.com>\r\nBDAT 1 LAST\r\nx");
    assert_eq!(rehearsal.hears().matches("452 4.3.1").count(), 2);
    assert!(rehearsal.submissions.is_empty());
}

#[test]
fn lines_have_their_length_and_nonsense_has_an_end() {
    let mut rehearsal = Rehearsal::plain();
    let of = |length: usize| format!("NOOP {}\r\n", "x".repeat(length - 7));
    rehearsal.says(of(512) + &of(513) + &of(100_000) + &of(512));
    let answers = rehearsal.hears();
    let codes: Vec<_> = answers.lines().map(|line| &line[..9]).collect();
    assert_eq!(codes[1..], ["250 2.0.0", "500 5.5.2", "500 5.5.2", "250 2.0.0"]);
    rehearsal.says("FOO\r\n".repeat(100));
    let answers = rehearsal.hears();
    assert_eq!(answers.matches("500 5.5.1").count(), 8);
    assert!(
        answers.ends_with("421 4.7.0 too many commands that are not understood\r\n"),
        "{answers}"
    );
    assert!(rehearsal.dialogue.is_over());
}

#[test]
fn a_browser_is_sent_away() {
    for head in ["GET / HTTP/1.1\r\n", "POST /x", "PRI * HTTP/2.0\r\n"] {
        let mut rehearsal = Rehearsal::plain();
        rehearsal.says(head.to_owned() + &"x".repeat(600) + "\r\nMAIL FROM:<evil@example.org>\r\n");
        let answers = rehearsal.hears();
        assert!(
            answers.ends_with("554 5.5.1 this is a mail server: it does not speak HTTP\r\n"),
            "{answers}"
        );
        assert!(rehearsal.dialogue.is_over());
    }
}

#[test]
fn a_chunk_whose_size_is_not_understood_ends_the_dialogue() {
    for size in ["x", "-1", "9999999999999999999991", "", "1 LASTLY", "1 2"] {
        let mut rehearsal = Rehearsal::plain();
        rehearsal.says("HELO app\r\nMAIL FROM:<news@example.org>\r\nRCPT TO:<ada@example.com>\r\n");
        rehearsal.says(format!("BDAT {size}\r\nMAIL FROM:<evil@example.org>\r\n"));
        assert!(rehearsal.dialogue.is_over(), "{size}");
        assert!(rehearsal.hears().lines().last().unwrap().starts_with("501 5.5.4 "), "{size}");
    }
}

#[test]
fn a_long_answer_has_many_lines() {
    let mut rehearsal = Rehearsal::plain();
    rehearsal.hears();
    rehearsal.dialogue.close(&format!("554 5.6.0 {}", ["campaign"; 100].join(" ")));
    let answers = rehearsal.hears();
    let lines: Vec<_> = answers.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line.len() < 510));
    assert!(
        lines[0].starts_with("554-5.6.0 campaign") && lines[2].starts_with("554 5.6.0 campaign")
    );
}

/// Lines and chunks, whole and broken, that a client may send.
const PIECES: [&str; 34] = [
    "EHLO app\r\n",
    "HELO app\r\n",
    "MAIL FROM:<news@example.org>\r\n",
    "MAIL FROM:<busy@example.com> SIZE=5\r\n",
    "MAIL FROM:<>\r\n",
    "RCPT TO:<ada@example.com>\r\n",
    "RCPT TO:<bob@example.com>\r\n",
    "RCPT TO:<\"a b\"@example.com>\r\n",
    "DATA\r\n",
    "Subject: x\r\n",
    "\r\n",
    ".\r\n",
    "..\r\n",
    ".a\r\n",
    "BDAT 4\r\n",
    "BDAT 4 LAST\r\n",
    "BDAT 0 LAST\r\n",
    "ab\r\n",
    "abcd",
    "RSET\r\n",
    "NOOP\r\n",
    "QUIT\r\n",
    "AUTH PLAIN AGFkYQBzZWNyZXQ=\r\n",
    "AUTH LOGIN\r\n",
    "YWRh\r\n",
    "c2VjcmV0\r\n",
    "*\r\n",
    "BDAT x\r\n",
    "FOO\r\n",
    "\n",
    "\r",
    ".",
    "é\0\u{7f}\r\n",
    "BDAT 9000\r\n",
];

fn said() -> impl Strategy<Value = Vec<u8>> {
    let mail = "EHLO app\r\nMAIL FROM:<news@example.org>\r\nRCPT TO:<ada@example.com>\r\n";
    let begin = select(vec!["", "EHLO app\r\n", mail]);
    let piece = prop_oneof![9 => select(PIECES.to_vec()).prop_map(|text| text.as_bytes().to_vec()), 1 => vec(any::<u8>(), 0..20)];
    (begin, vec(piece, 0..30))
        .prop_map(|(begin, pieces)| [begin.as_bytes().to_vec(), pieces.concat()].concat())
}

/// Plays the bytes in pieces of these lengths, over and over.
fn played(terms: SmtpTerms, said: &[u8], lengths: &[usize]) -> Rehearsal {
    let mut rehearsal = Rehearsal::new(terms, true);
    let mut rest = said;
    for length in lengths.iter().cycle() {
        let (piece, more) = rest.split_at((*length).min(rest.len()));
        rehearsal.says(piece);
        rest = more;
        if rest.is_empty() {
            break;
        }
    }
    rehearsal
}

proptest! {
    #[test]
    fn how_the_bytes_are_cut_does_not_matter(
        said in said(), lengths in vec(1..40_usize, 1..5), asks_login in any::<bool>(),
    ) {
        let terms = SmtpTerms { asks_login, ..terms() };
        let mut whole = played(terms.clone(), &said, &[usize::MAX]);
        let mut cut = played(terms, &said, &lengths);
        prop_assert_eq!(whole.hears(), cut.hears());
        prop_assert_eq!(format!("{:?}", whole.submissions), format!("{:?}", cut.submissions));
        prop_assert_eq!(whole.dialogue.is_over(), cut.dialogue.is_over());
    }

    #[test]
    fn each_submission_has_its_answer_and_each_answer_its_submission(said in said()) {
        let rehearsal = played(terms(), &said, &[usize::MAX]);
        let queued = rehearsal.answers.lines().filter(|line| line.starts_with("250 2.0.0 queued as "));
        prop_assert_eq!(queued.count(), rehearsal.submissions.len());
        prop_assert!(rehearsal.submissions.iter().all(|mail| !mail.to.is_empty() && mail.data.len() <= 10_000));
        // Every line of an answer has a code, a mark and an end.
        for line in rehearsal.answers.split_terminator("\r\n") {
            prop_assert!(line.is_ascii() && line.len() < 510 && line[..3].parse::<u16>().is_ok(), "{}", line);
            prop_assert!(matches!(line.as_bytes()[3], b' ' | b'-'), "{}", line);
        }
    }

    #[test]
    fn without_the_final_dot_or_the_last_chunk_nothing_is_submitted(
        said in said(), is_chunked in any::<bool>(), cut in 0..1_000_usize,
    ) {
        let said: Vec<u8> = said.split(|byte| b".lL".contains(byte)).flatten().copied().collect();
        let content = if is_chunked { "BDAT 12\r\nSubject: x\r\nBDAT 3 LAST\r\nx\r" } else { "DATA\r\nSubject: x\r\nx\r\n.\r" };
        let begin = "EHLO app\r\nMAIL FROM:<news@example.org>\r\nRCPT TO:<ada@example.com>\r\n";
        let whole = format!("{begin}{content}");
        let mut rehearsal = played(terms(), &said, &[usize::MAX]);
        prop_assert!(rehearsal.submissions.is_empty());
        rehearsal = played(terms(), &whole.as_bytes()[..cut.min(whole.len())], &[7]);
        prop_assert!(rehearsal.submissions.is_empty());
        if cut >= whole.len() {
            rehearsal.says("\n");
            prop_assert_eq!(rehearsal.submissions.len(), 1);
        }
    }

    #[test]
    fn a_mail_arrives_as_it_was_sent(
        lines in vec("[a.é]{0,20}", 0..20), lengths in vec(1..50_usize, 1..5), is_chunked in any::<bool>(),
    ) {
        let mail = lines.iter().fold(String::new(), |mail, line| mail + line + "\r\n");
        let mut said = b"HELO app\r\nMAIL FROM:<news@example.org>\r\nRCPT TO:<ada@example.com>\r\n".to_vec();
        if is_chunked {
            let mut rest = mail.as_bytes();
            for length in lengths.iter().cycle() {
                let (piece, more) = rest.split_at((*length).min(rest.len()));
                rest = more;
                let last = if rest.is_empty() { " LAST" } else { "" };
                said.extend_from_slice(format!("BDAT {}{last}\r\n", piece.len()).as_bytes());
                said.extend_from_slice(piece);
                if rest.is_empty() {
                    break;
                }
            }
        } else {
            said.extend_from_slice(b"DATA\r\n");
            for line in &lines {
                let dot = if line.starts_with('.') { "." } else { "" };
                said.extend_from_slice(format!("{dot}{line}\r\n").as_bytes());
            }
            said.extend_from_slice(b".\r\n");
        }
        let rehearsal = played(terms(), &said, &lengths);
        prop_assert_eq!(rehearsal.submissions.len(), 1, "{}", rehearsal.answers);
        prop_assert_eq!(&rehearsal.submissions[0].data, mail.as_bytes());
        prop_assert_eq!(&rehearsal.submissions[0].to, &["ada@example.com"]);
    }

    #[test]
    fn what_is_held_is_what_was_asked_for(said in said(), lengths in vec(1..5_000_usize, 1..5)) {
        let mut rehearsal = Rehearsal::plain();
        let mut rest = &said[..];
        for length in lengths.iter().cycle() {
            let (piece, more) = rest.split_at((*length).min(rest.len()));
            let wanted = rehearsal.dialogue.wants(piece.len());
            rehearsal.says(piece);
            // A recipient has 24 bytes of its own, and may end a command that came in many pieces.
            prop_assert!(rehearsal.dialogue.wants(0) <= wanted + 4 * piece.len() + 300);
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
    }
}
