use super::{CheckState, DoctorReport};
use crate::page::{Page, Span, Tone, View};

impl View for DoctorReport {
    fn view(&self, page: &mut Page) {
        page.heading(format!("{}: {}", self.stack, self.in_short()));
        for finding in &self.findings {
            let (mark, tone) = match finding.state {
                CheckState::Ok => ("ok      ", Tone::Good),
                CheckState::Unknown => ("unknown ", Tone::Faint),
                CheckState::Warning => ("warning ", Tone::Warning),
                CheckState::Failed => ("failed  ", Tone::Bad),
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

impl DoctorReport {
    fn in_short(&self) -> String {
        let named = [
            (CheckState::Failed, "failed"),
            (CheckState::Warning, "warning"),
            (CheckState::Unknown, "unknown"),
        ];
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
