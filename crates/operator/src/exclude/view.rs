use super::{ExcludeReport, ExclusionsReport};
use crate::page::{Page, Tone, View};
use tidegate_core::format::{count, counted};

impl View for ExcludeReport {
    fn view(&self, page: &mut Page) {
        page.line(Tone::Good, format!("Exclusion list: {}.", self.record.detail));
        if self.changed > 0 {
            let said = format!("In force within {} s.", self.in_force_within_s);
            page.line(Tone::Plain, said);
        }
        if self.changed > 0 && !self.recorded {
            page.line(Tone::Warning, "The history could not be written: the change is not there.");
        }
        if !self.not_addresses.is_empty() {
            let lines = counted(self.not_addresses.len() as u64, "line");
            page.line(Tone::Bad, format!("{lines} without an address left out:"));
            self.not_addresses.iter().for_each(|fault| page.line(Tone::Bad, fault));
        }
    }
}

impl View for ExclusionsReport {
    fn view(&self, page: &mut Page) {
        let said = format!("{} excluded", counted(self.addresses, "recipient"));
        page.line(Tone::Strong, format!("{said}, version {}.", count(self.version)));
        match self.contains {
            Some(true) => page.line(Tone::Warning, "The address is on the list."),
            Some(false) => page.line(Tone::Plain, "The address is not on the list."),
            None => {}
        }
    }
}
