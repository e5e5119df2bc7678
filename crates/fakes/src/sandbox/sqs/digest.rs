//! The MD5 digests that clients compare with their own.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use md5::{Digest as _, Md5};

/// The digest of a message body.
pub(crate) fn of_body(body: &str) -> String {
    hex(Md5::new_with_prefix(body))
}

/// The digest of attributes of type `String`; none without attributes. SQS hashes them by name:
/// each text after its length in four bytes, and a byte 1 (for text) before each value.
pub(crate) fn of_attributes<N: AsRef<str> + Ord>(
    attributes: &BTreeMap<N, impl AsRef<str>>,
) -> Option<String> {
    let mut md5 = Md5::new();
    let part = |md5: &mut Md5, text: &str| {
        // SQS takes no part of more than 1 MiB.
        md5.update(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
        md5.update(text);
    };
    for (name, value) in attributes {
        part(&mut md5, name.as_ref());
        part(&mut md5, "String");
        md5.update([1]);
        part(&mut md5, value.as_ref());
    }
    (!attributes.is_empty()).then(|| hex(md5))
}

fn hex(md5: Md5) -> String {
    md5.finalize().iter().fold(String::with_capacity(32), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_the_digest_that_md5sum_tells() {
        assert_eq!(of_body("hello"), "5d41402abc4b2a76b9719d911017c592");
        assert_eq!(of_body("Grüße"), "49c5f675b49037b6044b803ac9d1a6d7");
    }

    #[test]
    fn attributes_have_the_digest_that_aws_documents() {
        // `printf '\0\0\0\x08campaign\0\0\0\x06String\x01\0\0\0\x03big' | md5sum`, and so on.
        let one = BTreeMap::from([("campaign", "big")]);
        assert_eq!(of_attributes(&one).unwrap(), "53d7cac34294bae2676e66c67874b51a");
        let two = BTreeMap::from([("pass", "0"), ("campaign", "big")]);
        assert_eq!(of_attributes(&two).unwrap(), "e8c92c57588d704f6416198cfb9b0bc6");
        assert_eq!(of_attributes(&BTreeMap::<&str, &str>::new()), None);
    }
}
