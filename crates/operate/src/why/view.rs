use super::{Explanation, MailVerdict, Statement};
use crate::page::{Page, Span, Tone, View};

impl MailVerdict {
    const fn tone(self) -> Tone {
        match self {
            Self::Sent => Tone::Good,
            Self::Sending | Self::Retry | Self::Waiting => Tone::Strong,
            Self::Nowhere | Self::WhichCampaign | Self::Unknown => Tone::Warning,
            _ => Tone::Bad,
        }
    }
}

impl View for Explanation {
    fn view(&self, page: &mut Page) {
        page.line(self.verdict.tone(), &self.summary);
        if let Some(lets_go) = &self.lets_go {
            let when = if self.verdict == MailVerdict::Nowhere { "next" } else { "lets go" };
            page.fields([(when, Span::from(lets_go))]);
        }
        // The first obstacle is in the summary already.
        if self.limits.len() > 1 && self.limits.iter().any(|limit| limit.verdict == self.verdict) {
            page.heading("Holds it as well");
            for limit in self.limits.iter().skip(1) {
                page.line(Tone::Bad, format!("  {}", limit.what));
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
