//! The ends of a mail that other servers took for one, as published in 2023: CVE-2023-51764 (Postfix), -51765 (Sendmail), -51766 (Exim).

use super::Rehearsal;

const SMUGGLED: &str = "MAIL FROM:<admin@example.org>\r\nRCPT TO:<bob@example.com>\r\nDATA\r\nSubject: forged\r\n\r\nx\r\n.\r\n";

fn receiving(command: &str) -> Rehearsal {
    let mut rehearsal = Rehearsal::plain();
    rehearsal.says("EHLO app\r\nMAIL FROM:<news@example.org>\r\nRCPT TO:<ada@example.com>\r\n");
    rehearsal.says(command);
    rehearsal.hears();
    rehearsal
}

#[test]
fn no_end_but_the_right_one_ends_a_mail() {
    for end in [
        "\n.\n",
        "\n.\r\n",
        "\r\n.\n",
        "\r.\r",
        "\r.\r\n",
        "\r\n.\r",
        "\r.\n",
        "\n.\r",
        "\n\n.\r\n",
        "\r\r\n.\r\n",
        "\r\n\n.\r\n",
        "\r\n.\r\r\n",
        "\n\r.\r\n",
        "\r\n\x00.\n",
        "\r\n.\x00\n",
    ] {
        let content = format!("Subject: x\r\n\r\nHello{end}{SMUGGLED}");
        for length in [1, 2, 3, usize::MAX] {
            let mut rehearsal = receiving("DATA\r\n");
            for piece in content.as_bytes().chunks(length.min(content.len())) {
                rehearsal.says(piece);
            }
            let answers = rehearsal.hears();
            assert!(rehearsal.submissions.is_empty(), "{end:?}: {:?}", rehearsal.submissions);
            let refused = "554 5.5.2 a line ends with CR and LF: a CR or LF alone is not taken\r\n";
            assert_eq!(answers, refused, "{end:?}, in pieces of {length}");
            assert!(rehearsal.dialogue.is_over(), "{end:?}");
        }
    }
}

#[test]
fn a_dot_line_with_more_on_it_is_content() {
    let mut rehearsal = receiving("DATA\r\n");
    rehearsal.says("Hello\r\n.\x00\r\n. \r\n.x.\r\n.\r\n");
    assert_eq!(rehearsal.submissions[0].data, b"Hello\r\n\x00\r\n \r\nx.\r\n");
}

#[test]
fn chunks_have_whole_lines_too() {
    for content in ["a\nb\r\n", "a\rb\r\n", "ab\r\n\r"] {
        let mut rehearsal = receiving(&format!("BDAT {} LAST\r\n{content}", content.len()));
        assert!(rehearsal.submissions.is_empty());
        assert!(rehearsal.dialogue.is_over(), "{content:?}");
        assert_eq!(rehearsal.hears(), "");
    }
    // A line's end may be cut.
    let mut rehearsal = receiving("BDAT 2\r\na\rBDAT 1 LAST\r\n\n");
    assert_eq!(rehearsal.submissions[0].data, b"a\r\n");
    rehearsal.says("NOOP\r\n");
    assert!(!rehearsal.dialogue.is_over());
}

#[test]
fn commands_have_whole_lines_too() {
    for command in
        ["NOOP\n", "NO\rOP\r\n", "NOOP\r\r\n", "\n", "NOOP\rMAIL FROM:<evil@example.org>\r\n"]
    {
        let mut rehearsal = receiving("");
        rehearsal.says(command);
        assert!(rehearsal.hears().starts_with("554 5.5.2 "), "{command:?}");
        assert!(rehearsal.dialogue.is_over(), "{command:?}");
    }
}
