//! The report as text, for a terminal.

use tidegate_operator::page::{Page, Span, TextTable, Tone, View};

use super::figures::{RunPhase, ShareInPhase, float};
use super::report::{Ending, LocalReport};

impl View for LocalReport {
    fn view(&self, page: &mut Page) {
        let how = match self.ending {
            Ending::Complete => format!("every {} arrived", self.message()),
            Ending::Time => "its time was over".to_owned(),
            Ending::Stalled => "nothing arrived any more".to_owned(),
        };
        let (arrived, all) = (self.mails.arrived, self.settings.plan().in_words());
        let text = format!("{arrived} of {all} in {:.1} s; {how}", self.figures.sending_seconds);
        page.heading(text);
        for held in &self.held {
            page.line(Tone::Warning, held.as_str());
        }
        page.line(Tone::Plain, "");
        let rows = [self.utilisation(), self.shares(), self.counts(), self.resources()];
        page.fields(rows.iter().flatten().map(|(name, value)| (name.as_str(), Span::from(value))));
        page.line(Tone::Plain, "");
        let mut promises = TextTable::bare();
        for promise in &self.promises {
            let (tone, mark) =
                if promise.kept { (Tone::Good, "kept") } else { (Tone::Bad, "BROKEN") };
            let said = format!("{} ({})", promise.promise, promise.seen);
            promises.row([Span::new(tone, mark), Span::from(said)]);
        }
        page.table(promises);
    }
}

type Rows = Vec<(String, String)>;

fn row(name: &str, value: String) -> (String, String) {
    (name.to_owned(), value)
}

impl LocalReport {
    fn message(&self) -> &'static str {
        self.settings.channel.words().message
    }

    fn utilisation(&self) -> Rows {
        let phases = &self.figures.phases;
        let worst = self.sandbox.worst_sliding_second_offered;
        vec![
            row("utilisation", used(&phases.backlogged)),
            row("  both campaigns waiting", used(&phases.all_waiting)),
            row("  after the first one's end", used(&phases.after_first_end)),
            row("worst sliding second", format!("{worst} arrived, quota {}", self.settings.quota)),
        ]
    }

    fn shares(&self) -> Rows {
        let phases = &self.figures.phases;
        let named = [
            ("shares, both waiting", &phases.all_waiting),
            ("shares, after that end", &phases.after_first_end),
        ];
        let shares = named.into_iter().flat_map(|(name, phase)| {
            let names = std::iter::once(name).chain(std::iter::repeat(""));
            let shares =
                phase.shares.iter().map(|(campaign, its)| format!("{campaign} {}", share(its)));
            names.zip(shares).map(|(name, share)| row(name, share))
        });
        let ended = self.figures.ended_after_seconds.iter().map(|(campaign, after)| {
            row(
                &format!("{campaign} ended"),
                format!("{after:.1} s after the first {}", self.message()),
            )
        });
        shares.chain(ended).collect()
    }

    fn counts(&self) -> Rows {
        let refused = self.sandbox.refused.iter().filter(|(_, count)| **count > 0);
        let refused: Vec<_> = refused.map(|(code, count)| format!("{count} {code}")).collect();
        let refused = if refused.is_empty() { "none".to_owned() } else { refused.join(", ") };
        let mails = self.mails;
        let lost = mails.lost.map_or_else(|| "not told".to_owned(), |lost| lost.to_string());
        let (twice, dead, waiting) = (mails.duplicates, mails.dead_lettered, mails.waiting);
        let mails =
            format!("{lost} lost, {twice} duplicates, {dead} dead-lettered, {waiting} waiting");
        vec![row("refusals", refused), row(&format!("{}s", self.message()), mails)]
    }

    fn resources(&self) -> Rows {
        let calls = self.sqs.calls_per_mail.map(|calls| {
            let idle = match self.sqs.idle_windows {
                0 => String::new(),
                windows => format!("; {} in {windows} idle windows", self.sqs.idle_calls),
            };
            row("SQS calls", format!("{calls:.3} a {}{idle}", self.message()))
        });
        let poller = self.poller.map(|poller| {
            let cpu = poller.cpu_ms_per_mail.unwrap_or_default();
            let memory = float(poller.usage.peak_rss_bytes) / 1e6;
            let processes = poller.usage.processes;
            let cpu = format!("{cpu:.2} ms CPU a {}", self.message());
            row("poller", format!("{cpu}, {memory:.1} MB at most, {processes} processes"))
        });
        calls.into_iter().chain(poller).collect()
    }
}

fn used(phase: &RunPhase) -> String {
    let Some(used) = phase.utilisation else {
        return "not told: the phase is too short".to_owned();
    };
    let worst = phase
        .worst_30_windows
        .map_or_else(String::new, |worst| format!(", worst 30 windows {:.2} %", worst * 100.0));
    format!("{:.2} % of the quota over {} windows{worst}", used * 100.0, phase.windows)
}

fn share(share: &ShareInPhase) -> String {
    let (is, wanted) = (share.share * 100.0, share.wanted * 100.0);
    let worst = share
        .worst_30_windows_points
        .map_or_else(String::new, |points| format!(", worst 30 windows off by {points:.2} points"));
    format!("{is:.2} % (wanted {wanted:.0} %{worst})")
}

#[cfg(test)]
mod tests {
    use tidegate_operator::page::Page;

    use crate::plan::LocalChannel;
    use crate::report::tests::sample;
    use crate::report::{Ending, promises};

    #[test]
    fn a_report_tells_utilisation_shares_calls_and_promises() {
        let text = Page::of(&sample()).plain();
        for line in [
            "300 of 300 mails in 29.9 s; every mail arrived",
            "  worst sliding second         10 arrived, quota 10",
            "    both campaigns waiting     100.00 % of the quota over 24 windows",
            "  shares, both waiting         big 90.00 % (wanted 90 %)",
            "                               small 10.00 % (wanted 10 %)",
            "  mails                        0 lost, 0 duplicates, 0 dead-lettered, 0 waiting",
            "  SQS calls                    0.520 a mail",
            "  kept  nothing lost (0 lost)",
        ] {
            assert!(text.lines().any(|known| known == line), "`{line}` is not in:\n{text}");
        }
    }

    #[test]
    fn a_run_of_texts_speaks_of_texts_and_says_why_they_are_fewer_than_their_parts() {
        let mut report = sample();
        report.settings.channel = LocalChannel::Sms;
        report.settings.campaigns[1].recipients = 3;
        report.promises = promises(Ending::Complete, report.mails, &report.sandbox, "text");
        let text = Page::of(&report).plain();
        let first =
            "300 of 300 texts (360 parts: each of small has 3) in 29.9 s; every text arrived";
        assert_eq!(text.lines().next(), Some(first));
        assert!(!text.contains("mail"), "{text}");
    }

    #[test]
    fn a_run_that_stalled_names_what_held_sending() {
        let mut report = sample();
        report.ending = Ending::Stalled;
        report.held = vec!["small is held (refusals)".to_owned()];
        let text = Page::of(&report).plain();
        assert!(text.contains("nothing arrived any more\nsmall is held (refusals)\n"), "{text}");
    }

    #[test]
    fn a_broken_promise_stands_out() {
        let mut report = sample();
        report.mails.lost = Some(2);
        report.promises = promises(Ending::Complete, report.mails, &report.sandbox, "mail");
        assert!(Page::of(&report).plain().contains("  BROKEN  nothing lost (2 lost)"));
        assert!(!report.is_kept());
    }
}
