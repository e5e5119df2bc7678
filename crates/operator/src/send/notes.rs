//! A word of the dry run on mails that are allowed and may surprise.

use serde::Serialize;
use tidegate_core::channel::Content;
use tidegate_core::email::Content as MailContent;

use crate::page::{Page, Tone, View};
use tidegate_core::format::counted;

/// Bytes of HTML from which Gmail shows the rest on another page only.
const CLIPPED_BYTES: usize = 102 * 1024;
/// The most bytes of a line in RFC 5322.
const LINE_BYTES: usize = 998;

/// Rows with something that is worth a word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MailNotes {
    /// Rows whose HTML Gmail clips.
    pub clipped: u64,
    pub long_subjects: u64,
}

impl MailNotes {
    pub(super) fn see(&mut self, content: &Content) {
        let Content::Email(email) = content else { return };
        let MailContent::Simple { subject, html, .. } = &email.content else { return };
        // The literal is the longer one.
        let html = html.as_ref().filter(|html| html.literal().len() > CLIPPED_BYTES);
        self.clipped += u64::from(html.is_some_and(|html| html.decode().len() > CLIPPED_BYTES));
        self.long_subjects += u64::from(subject.len() > LINE_BYTES);
    }
}

impl View for MailNotes {
    fn view(&self, page: &mut Page) {
        let clipped =
            "HTML above 102 KB: Gmail shows its end, with the way to unsubscribe, on another page";
        let long = "a subject above 998 bytes: mail servers may cut or refuse it";
        for (rows, said) in [(self.clipped, clipped), (self.long_subjects, long)] {
            if rows > 0 {
                page.line(Tone::Warning, format!("Note: {} with {said}.", counted(rows, "mail")));
            }
        }
    }
}
