use super::{Explanation, MailVerdict, Statement};
use crate::page::{Page, Span, Tone, View};

impl MailVerdict {
    const fn tone(self) -> Tone {
        match self {
            Self::Sent => Tone::Good,
            Self::Sending => Tone::Strong,
            Self::Nowhere | Self::Unrecorded | Self::WhichCampaign | Self::Unknown => Tone::Warning,
            _ => Tone::Bad,
        }
    }
}

impl View for Explanation {
    fn view(&self, page: &mut Page) {
        page.line(self.verdict.tone(), &self.summary);
        if let Some(lets_go) = &self.lets_go {
            let guesses = matches!(self.verdict, MailVerdict::Nowhere | MailVerdict::Unrecorded);
            let when = if guesses { "next" } else { "lets go" };
            page.fields([(when, Span::from(lets_go))]);
        }
        if let Some(first) = &self.if_it_waits {
            page.heading("If it waits");
            let others = self.limits.iter().filter(|limit| *limit != first);
            for limit in std::iter::once(first).chain(others) {
                page.line(Tone::Plain, format!("  {}", limit.what));
                page.line(Tone::Faint, format!("    lets go {}", limit.lets_go));
            }
        }
        section(page, "Read", &self.facts);
        section(page, "Ruled out", &self.ruled_out);
        if !self.not_known.is_empty() {
            page.heading("Not known");
            for text in &self.not_known {
                page.line(Tone::Plain, format!("  {text}"));
            }
        }
    }
}

fn section(page: &mut Page, heading: &str, said: &[Statement]) {
    if !said.is_empty() {
        page.heading(heading);
        page.fields(said.iter().map(|said| (said.of, Span::from(&said.what))));
    }
}
