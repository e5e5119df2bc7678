//! The report as text, for a terminal.

use std::fmt::{self, Display, Write as _};

use super::figures::RunPhase;
use super::report::{Ending, LocalReport};

impl Display for LocalReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self).unwrap_or_default())
    }
}

fn text(report: &LocalReport) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let mails = report.mails;
    let how = match report.ending {
        Ending::Complete => "every mail arrived",
        Ending::Time => "its time was over",
        Ending::Stalled => "nothing arrived any more",
    };
    let figures = &report.figures;
    writeln!(
        out,
        "{} of {} mails in {:.1} s; {how}",
        mails.arrived, mails.queued, figures.sending_seconds
    )?;
    writeln!(out)?;
    utilisation(report, &mut out)?;
    shares(report, &mut out)?;
    counts(report, &mut out)?;
    writeln!(out)?;
    for promise in &report.promises {
        let mark = if promise.kept { "kept  " } else { "BROKEN" };
        writeln!(out, "  {mark}  {} ({})", promise.promise, promise.seen)?;
    }
    Ok(out)
}

fn utilisation(report: &LocalReport, out: &mut String) -> fmt::Result {
    let phases = &report.figures.phases;
    let quota = report.settings.quota;
    for (name, phase) in [
        ("utilisation", &phases.backlogged),
        ("  both campaigns waiting", &phases.all_waiting),
        ("  after the first one's end", &phases.after_first_end),
    ] {
        writeln!(out, "{name:29}{}", of_phase(phase))?;
    }
    let worst = report.sandbox.worst_sliding_second_offered;
    writeln!(out, "{:29}{worst} arrived, quota {quota}", "worst sliding second")
}

fn of_phase(phase: &RunPhase) -> String {
    let Some(used) = phase.utilisation else {
        return "not told: the phase is too short".to_owned();
    };
    let worst = phase
        .worst_30_windows
        .map_or_else(String::new, |worst| format!(", worst 30 windows {:.2} %", worst * 100.0));
    format!("{:.2} % of the quota over {} windows{worst}", used * 100.0, phase.windows)
}

fn shares(report: &LocalReport, out: &mut String) -> fmt::Result {
    let figures = &report.figures;
    for (name, phase) in [
        ("shares, both waiting", &figures.phases.all_waiting),
        ("shares, after that end", &figures.phases.after_first_end),
    ] {
        let shares = phase.shares.iter().map(|(campaign, share)| {
            let (is, wanted) = (share.share * 100.0, share.wanted * 100.0);
            let worst = share.worst_30_windows_points.map_or_else(String::new, |points| {
                format!(", worst 30 windows off by {points:.2} points")
            });
            format!("{campaign} {is:.2} % (wanted {wanted:.0} %{worst})")
        });
        let shares: Vec<_> = shares.collect();
        if !shares.is_empty() {
            writeln!(out, "{name:29}{}", shares.join(&format!("\n{:29}", "")))?;
        }
    }
    for (campaign, after) in &figures.ended_after_seconds {
        writeln!(out, "{:29}{after:.1} s after the first mail", format!("{campaign} ended"))?;
    }
    Ok(())
}

fn counts(report: &LocalReport, out: &mut String) -> fmt::Result {
    let refused = report.sandbox.refused.iter().filter(|(_, count)| **count > 0);
    let refused: Vec<_> = refused.map(|(code, count)| format!("{count} {code}")).collect();
    let refused = if refused.is_empty() { "none".to_owned() } else { refused.join(", ") };
    writeln!(out, "{:29}{refused}", "refusals")?;
    let mails = report.mails;
    let lost = mails.lost.map_or_else(|| "not told".to_owned(), |lost| lost.to_string());
    writeln!(
        out,
        "{:29}{lost} lost, {} duplicates, {} dead-lettered, {} waiting",
        "mails", mails.duplicates, mails.dead_lettered, mails.waiting
    )?;
    let sqs = report.sqs;
    if let Some(calls) = sqs.calls_per_mail {
        let idle = match sqs.idle_windows {
            0 => String::new(),
            windows => format!("; {} in {windows} idle windows", sqs.idle_calls),
        };
        writeln!(out, "{:29}{calls:.3} a mail{idle}", "SQS calls")?;
    }
    if let Some(poller) = report.poller {
        let cpu = poller.cpu_ms_per_mail.unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "megabytes, to be read")]
        let memory = poller.usage.peak_rss_bytes as f64 / 1e6;
        let processes = poller.usage.processes;
        writeln!(
            out,
            "{:29}{cpu:.2} ms CPU a mail, {memory:.1} MB at most, {processes} processes",
            "poller"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::report::tests::sample;
    use crate::report::{Ending, promises};

    #[test]
    fn a_report_tells_utilisation_shares_calls_and_promises() {
        let text = sample().to_string();
        for line in [
            "300 of 300 mails in 29.9 s; every mail arrived",
            "worst sliding second         10 arrived, quota 10",
            "  both campaigns waiting     100.00 % of the quota over 24 windows",
            "shares, both waiting         big 90.00 % (wanted 90 %)",
            "                             small 10.00 % (wanted 10 %)",
            "mails                        0 lost, 0 duplicates, 0 dead-lettered, 0 waiting",
            "SQS calls                    0.520 a mail",
            "  kept    nothing lost (0 lost)",
        ] {
            assert!(text.lines().any(|known| known == line), "`{line}` is not in:\n{text}");
        }
    }

    #[test]
    fn a_broken_promise_stands_out() {
        let mut report = sample();
        report.mails.lost = Some(2);
        report.promises = promises(Ending::Complete, report.mails, &report.sandbox);
        assert!(report.to_string().contains("  BROKEN  nothing lost (2 lost)"));
        assert!(!report.is_kept());
    }
}
