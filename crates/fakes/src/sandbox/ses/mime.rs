//! Reads the header of a raw MIME message, which is all that the sandbox needs.

use mail_parser::{Address, MessageParser};

use crate::sandbox::mailbox::MailFields;

/// Sender, recipients and subject, as a message's header names them; what is not there stays empty.
pub(crate) fn read_header(raw: &[u8]) -> MailFields {
    let Some(message) = MessageParser::default().parse_headers(raw) else {
        return MailFields::default();
    };
    MailFields {
        from: addresses(message.from()).into_iter().next().unwrap_or_default(),
        to: addresses(message.to()),
        cc: addresses(message.cc()),
        bcc: addresses(message.bcc()),
        subject: message.subject().unwrap_or_default().to_owned(),
        ..MailFields::default()
    }
}

/// Every address of a field, those in groups too.
fn addresses(field: Option<&Address<'_>>) -> Vec<String> {
    let all = field.into_iter().flat_map(Address::iter);
    all.filter_map(|address| address.address.as_deref().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_gives_every_address_unfolded_and_decoded() {
        let raw = b"From: \"News, Daily\" <news@example.org>\r\n\
            To: Ada <ada@example.com>,\r\n bob@example.com\r\n\
            Cc: team: c@example.com, d@example.com;\r\n\
            Bcc: e@example.com\r\n\
            Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=\r\n\r\nTo: not@a.header\r\n";
        let header = read_header(raw);
        assert_eq!(header.from, "news@example.org");
        assert_eq!(header.to, ["ada@example.com", "bob@example.com"]);
        assert_eq!(header.cc, ["c@example.com", "d@example.com"]);
        assert_eq!(header.bcc, ["e@example.com"]);
        assert_eq!(header.subject, "Grüße");
    }

    #[test]
    fn what_is_no_message_has_an_empty_header() {
        assert_eq!(read_header(b""), MailFields::default());
        assert_eq!(read_header(b"\xff\xfe\x00nothing"), MailFields::default());
    }
}
