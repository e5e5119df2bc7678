//! The compressed form of a message's body: `{"gzip": "…"}`, the base64 text of the gzipped JSON.
//!
//! SQS bills every 64 KB of a call as a request of its own, and a mail's body crosses it up to four times. A
//! newsletter of 30 KB becomes about 6 KB, so that a batch of ten is one request instead of five. Producers may
//! send this form; `tidegate send` does, and the poller writes it where a body is worth it.

use std::borrow::Cow;
use std::io::{self, Read as _, Write as _};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::dead_letter::SQS_LIMIT_BYTES;

/// Bodies below this stay as they are: 16 of them fit into what SQS bills as one request.
const WORTH_BYTES: usize = 4_096;

/// From level 3 on, a newsletter takes more time and becomes hardly smaller: of 50,000 bytes, level 1 leaves
/// 15,737 in 0.18 ms, level 2 leaves 12,390 in 0.27 ms, level 6 leaves 12,115 in 0.52 ms.
const LEVEL: u32 = 2;

/// Three slices of this size tell of a larger body whether it shrinks.
const SLICE_BYTES: usize = 4_096;

/// The form, without other members.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Compressed<'a> {
    #[serde(borrow)]
    gzip: Cow<'a, str>,
}

/// A body that has the compressed form and cannot be read.
#[derive(Debug, Error)]
pub enum InvalidCompression {
    /// Other members beside `gzip`, or a value that is no string.
    #[error("body: a compressed body has the member gzip alone, a string")]
    Form(#[source] serde_json::Error),
    /// No base64, or without its padding.
    #[error("gzip: must be base64 with padding")]
    Base64(#[source] base64::DecodeError),
    /// No gzip stream, or its content is not UTF-8.
    #[error("gzip: must be a gzipped JSON text in UTF-8")]
    Gzip(#[source] io::Error),
    /// The text would not fit into SQS without compression.
    #[error(
        "gzip: holds more than {SQS_LIMIT_BYTES} bytes; allowed is what fits into SQS uncompressed"
    )]
    TooLarge,
}

/// The compressed form of `body`; none where it is not worth it: below 4 KB, if it saves less than a
/// quarter, or if slices of a large one save less than a tenth.
///
/// ```
/// use tidegate_core::compression::{compress, decompress};
/// let newsletter = format!(r#"{{"to": "ada@example.com", "html": "{}"}}"#, "<p>News</p>".repeat(1_000));
/// let compressed = compress(&newsletter).unwrap();
/// assert!(compressed.len() < newsletter.len() / 10);
/// assert_eq!(decompress(&compressed).unwrap().unwrap(), newsletter);
/// assert_eq!(compress(r#"{"to": "ada@example.com"}"#), None);
/// ```
pub fn compress(body: &str) -> Option<String> {
    if body.len() < WORTH_BYTES || hardly_shrinks(body.as_bytes()) {
        return None;
    }
    let gzip = BASE64_STANDARD.encode(gzipped(body.as_bytes())?);
    let text = serde_json::to_string(&Compressed { gzip: gzip.into() }).ok()?;
    (text.len() * 4 <= body.len() * 3).then_some(text)
}

fn gzipped(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::new(LEVEL));
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

/// Whether slices of a large body, as base64 of their gzip, save less than a tenth: those of attachments, which are base64
/// already. To compress all of it would be for nothing.
fn hardly_shrinks(body: &[u8]) -> bool {
    if body.len() < 8 * SLICE_BYTES {
        return false;
    }
    // In the middle of each third.
    let middles = [1, 3, 5].map(|sixths| body.len() * sixths / 6);
    let slices = middles.map(|middle| &body[middle - SLICE_BYTES / 2..][..SLICE_BYTES]).concat();
    gzipped(&slices).is_some_and(|gzip| gzip.len() * 4 / 3 > slices.len() * 9 / 10)
}

/// The body that the compressed form `body` holds; none if it does not have that form.
///
/// # Errors
/// [`InvalidCompression`] if it has the form and cannot be read.
pub fn decompress(body: &str) -> Option<Result<String, InvalidCompression>> {
    let inner = body.trim_start().strip_prefix('{')?.trim_start();
    inner.starts_with("\"gzip\"").then(|| read(body))
}

fn read(body: &str) -> Result<String, InvalidCompression> {
    let form: Compressed<'_> = serde_json::from_str(body).map_err(InvalidCompression::Form)?;
    let gzip = BASE64_STANDARD.decode(form.gzip.as_bytes()).map_err(InvalidCompression::Base64)?;
    let mut text = String::new();
    let most = SQS_LIMIT_BYTES as u64 + 1;
    GzDecoder::new(&*gzip)
        .take(most)
        .read_to_string(&mut text)
        .map_err(InvalidCompression::Gzip)?;
    if text.len() > SQS_LIMIT_BYTES {
        return Err(InvalidCompression::TooLarge);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_compressed_is_smaller_and_comes_back(body in "[a-d<>é\"]{0,6000}") {
            let compressed = compress(&body);
            prop_assert_eq!(compressed.is_some(), body.len() >= WORTH_BYTES);
            if let Some(compressed) = compressed {
                prop_assert!(compressed.len() * 4 <= body.len() * 3);
                prop_assert_eq!(decompress(&compressed).unwrap().unwrap(), body);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in r#"\{ ?"gzip" ?: ?("[a-zA-Z0-9+/=]{0,40}"|[a-z0-9{]{0,4})\}?"#) {
            prop_assert!(decompress(&text).is_some());
        }
    }

    /// 64 characters, as in base64.
    fn noise(count: usize) -> String {
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b' ' + u8::try_from(random >> 58).unwrap())
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_body_that_hardly_shrinks_stays_as_it_is() {
        for bytes in [5_000, 50_000, 900_000] {
            assert_eq!(compress(&noise(bytes)), None, "{bytes} bytes");
        }
        assert!(hardly_shrinks(noise(50_000).as_bytes()), "known without compressing all of it");
    }

    #[test]
    fn a_newsletter_is_compressed_with_what_does_not_shrink_in_it() {
        let picture = noise(60_000);
        assert_eq!(compress(&picture), None);
        for body in ["<p>News</p>".repeat(6_000) + &picture, picture + &"<p>News</p>".repeat(6_000)]
        {
            let compressed = compress(&body).unwrap();
            assert_eq!(decompress(&compressed).unwrap().unwrap(), body);
        }
    }

    fn fault(body: &str) -> String {
        decompress(body).unwrap().unwrap_err().to_string()
    }

    #[test]
    fn a_form_that_cannot_be_read_says_why() {
        assert!(decompress(r#"{"to": "a@b.de", "gzip": "x"}"#).is_none());
        assert!(fault(r#"{"gzip": 5}"#).starts_with("body: a compressed body has the member gzip"));
        assert!(fault(r#"{"gzip": "AA==", "id": "1"}"#).starts_with("body: a compressed body"));
        assert_eq!(fault(r#" { "gzip": "?" }"#), "gzip: must be base64 with padding");
        assert_eq!(fault(r#"{"gzip": "AAAA"}"#), "gzip: must be a gzipped JSON text in UTF-8");
    }

    #[test]
    fn a_small_text_that_holds_a_huge_one_is_refused() {
        let bomb = compress(&"x".repeat(50_000_000)).unwrap();
        assert!(bomb.len() < 400_000);
        assert!(fault(&bomb).starts_with("gzip: holds more than 1048576 bytes"));
    }
}
