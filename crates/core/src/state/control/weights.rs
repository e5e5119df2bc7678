use super::Control;
use crate::config::Campaign;
use crate::limits::LimitTable;
use crate::timestamp::Window;
use crate::weight_rule::WeightRule;

impl Control {
    /// The weight of a campaign in `window`: that of its rule, the record's, or the configured one.
    pub fn weight_at(
        &self,
        campaign: &Campaign,
        listed: &[Campaign],
        limits: &LimitTable,
        window: Window,
    ) -> u32 {
        let is_another = |other: &&Campaign| other.name != campaign.name;
        let within = |other: &Campaign| limits.is_within_hours(&other.name, window);
        let mut others = listed.iter().filter(is_another).filter_map(within).peekable();
        match self.weight_rules.get(&campaign.name) {
            Some(WeightRule::OffPeak { off_peak })
                if others.peek().is_some() && !others.any(|is_open| is_open) =>
            {
                *off_peak
            }
            _ => self.weight(&campaign.name, campaign.weight),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{InitialLimits, Limit, LimitChanges};

    #[test]
    fn the_off_peak_weight_stands_outside_all_other_hours_and_nowhere_else() {
        let campaign = |name: &str, weight| Campaign {
            name: name.to_owned(),
            queue_url: format!("https://sqs.example/1/{name}"),
            weight,
            ..Campaign::default()
        };
        let listed = [campaign("bulk", 5), campaign("news", 90), campaign("shop", 10)];
        let limit = |hours: &str| -> Limit {
            serde_json::from_str(&format!(r#"{{"hours": "{hours}"}}"#)).unwrap()
        };
        let changes: LimitChanges = [
            ("news".parse().unwrap(), Some(limit("08:00-20:00"))),
            ("shop".parse().unwrap(), Some(limit("18:00-22:00"))),
        ]
        .into();
        let mut control = Control { limits: changes, ..Control::default() };
        control.weight_rules.insert("bulk".to_owned(), WeightRule::OffPeak { off_peak: 70 });
        let weight = |control: &Control, hour: u32| {
            let table = control.limit_table(&InitialLimits::default());
            let window = format!("2026-12-01T{hour:02}:30:00Z").parse().unwrap();
            control.weight_at(&listed[0], &listed, &table, window)
        };
        assert_eq!([7, 9, 19, 21, 23].map(|hour| weight(&control, hour)), [70, 5, 5, 5, 70]);
        control.limits.clear();
        assert_eq!(weight(&control, 23), 5, "no campaign has hours");
        control.limits.insert("bulk".parse().unwrap(), Some(limit("08:00-20:00")));
        assert_eq!(weight(&control, 23), 5, "no other campaign has hours");
    }
}
