use super::{DomainShare, DomainsReport, ProviderShare};
use crate::format::{count, counted, percent};
use crate::page::{Page, Span, TextTable, Tone, View};

/// Domains that the text shows of a provider.
const SHOWN_OF_PROVIDER: usize = 5;
/// Domains that the text shows without a known provider. JSON has all.
const SHOWN_OTHERS: usize = 20;

impl View for DomainsReport {
    fn view(&self, page: &mut Page) {
        let domains = counted(self.domains as u64, "domain");
        let all = counted(self.recipients, "recipient");
        page.line(Tone::Strong, format!("{all}, {domains}"));
        if !self.providers.is_empty() {
            page.heading("Providers");
            let mut table =
                TextTable::new(["provider", "recipients", "share", "domains"]).right(1).right(2);
            for provider in &self.providers {
                let (recipients, share) = (count(provider.recipients), percent(provider.share));
                table.row([provider.name.clone(), recipients, share, provider.largest()]);
            }
            page.table(table);
        }
        self.view_others(page);
        if !self.providers.is_empty() {
            page.heading("Limits for them: put a rate for RATE, such as 10/s");
            for provider in &self.providers {
                let key = &provider.key;
                let said = format!("  tidegate limit set {key} RATE --adaptive --reason '…'");
                page.line(Tone::Plain, said);
                if provider.not_in_key > 0 {
                    let left = counted(provider.not_in_key as u64, "domain");
                    page.line(Tone::Warning, format!("  {left} of {} not in it", provider.name));
                }
            }
        }
    }
}

impl DomainsReport {
    fn view_others(&self, page: &mut Page) {
        if self.others.is_empty() {
            return;
        }
        page.heading("Domains of no known provider");
        let mut table = TextTable::new(["domain", "recipients", "mail exchanger"]).right(1);
        for other in self.others.iter().take(SHOWN_OTHERS) {
            table.row([
                other.domain.clone().into(),
                count(other.recipients).into(),
                other.exchanger(),
            ]);
        }
        page.table(table);
        if let Some(more) = self.others.len().checked_sub(SHOWN_OTHERS).filter(|more| *more > 0) {
            page.line(Tone::Faint, format!("  and {} more", count(more as u64)));
        }
    }
}

impl ProviderShare {
    fn largest(&self) -> String {
        let shown = self.domains.iter().take(SHOWN_OF_PROVIDER);
        let shown: Vec<String> =
            shown.map(|share| format!("{} {}", share.domain, count(share.recipients))).collect();
        let more = self.domains.len() - shown.len();
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        shown.join(", ") + &more
    }
}

impl DomainShare {
    fn exchanger(&self) -> Span {
        match (&self.mx, &self.fault) {
            (_, Some(fault)) => Span::new(Tone::Warning, fault),
            (Some(hosts), None) => match hosts.first().map(String::as_str) {
                None => "none: its own host".into(),
                Some("") => Span::new(Tone::Warning, "none: it takes no mail"),
                Some(host) => host.into(),
            },
            (None, None) => Span::default(),
        }
    }
}
