use super::{Report, State};
use crate::page::{Page, Span, Tone, View};

impl View for Report {
    fn view(&self, page: &mut Page) {
        page.heading(format!("{}: {}", self.stack, self.in_short()));
        for finding in &self.findings {
            let (mark, tone) = match finding.state {
                State::Ok => ("ok      ", Tone::Good),
                State::Unknown => ("unknown ", Tone::Faint),
                State::Warning => ("warning ", Tone::Warning),
                State::Failed => ("failed  ", Tone::Bad),
            };
            page.spans([
                Span::from("  "),
                Span::new(tone, mark),
                Span::new(Tone::Strong, &finding.check),
                Span::from(format!(": {}", finding.found)),
            ]);
            if !finding.remedy.is_empty() {
                page.line(Tone::Plain, format!("          -> {}", finding.remedy));
            }
        }
    }
}

impl Report {
    fn in_short(&self) -> String {
        let named =
            [(State::Failed, "failed"), (State::Warning, "warning"), (State::Unknown, "unknown")];
        let counts = named.map(|(state, name)| (self.count(state), name));
        let words: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        let all = self.findings.len();
        if words.is_empty() {
            format!("all {all} checks ok")
        } else {
            format!("{} of {all} checks", words.join(", "))
        }
    }
}
