//! The tables of docs/cost.md: what a month costs that has some hours of sending, as a forecast tells it, and is idle
//! for the rest.

use std::path::Path;

use tidegate_core::Timestamp;
use tidegate_core::channel::Channel;
use tidegate_core::memory::Memory;
use tidegate_core::store::rows::ROWS;
use tidegate_simulator::plan::{
    CampaignLoad, Cost, ForecastOptions, IdleStack, Scenario, forecast,
};

/// A service's name on the page, and its part of a cost.
type Service = (&'static str, fn(&Cost) -> f64);

const SERVICES: [Service; 6] = [
    ("Lambda", |cost| cost.lambda),
    ("SQS", |cost| cost.sqs),
    ("DynamoDB", |cost| cost.dynamodb),
    ("CloudWatch metrics", |cost| cost.metrics),
    ("CloudWatch logs", |cost| cost.logs),
    ("CloudWatch alarms", |cost| cost.alarms),
];

/// A month's mails, and how it differs from the template's defaults.
#[derive(Clone, Copy)]
struct Month {
    mails: u64,
    quota: f64,
    channel: Channel,
    campaigns: u64,
    mail_kb: u32,
    merge: bool,
    wake_seconds: u32,
}

const IDLE: Month = Month {
    mails: 0,
    quota: 14.0,
    channel: Channel::Email,
    campaigns: 2,
    mail_kb: 4,
    merge: true,
    wake_seconds: 60,
};
const MILLION: Month = Month { mails: 1_000_000, ..IDLE };
const HUNDRED: Month = Month { mails: 100_000_000, quota: 200.0, ..IDLE };

impl Month {
    fn cost(self) -> Cost {
        let Self { channel, wake_seconds, .. } = self;
        let campaigns = usize::try_from(self.campaigns).unwrap();
        let idle = Cost::idle_month(&IdleStack { channel, campaigns, wake_seconds }).unwrap();
        if self.mails == 0 {
            return idle;
        }
        let (sends, seconds) = self.sending();
        let quiet = 1.0 - seconds / 3_600.0 / 730.0;
        Cost {
            lambda: sends.lambda + quiet * idle.lambda,
            sqs: sends.sqs + quiet * idle.sqs,
            dynamodb: sends.dynamodb + quiet * idle.dynamodb,
            logs: sends.logs + quiet * idle.logs,
            alarms: idle.alarms,
            ..sends
        }
    }

    /// From the first mail to the last, and how many seconds that takes.
    fn sending(self) -> (Cost, f64) {
        let options = ForecastOptions { seeds: 1, every_window: false };
        let forecast = forecast(&self.scenario(), options, &|_| true).unwrap();
        (forecast.cost, forecast.ends_after_seconds.unwrap().expected)
    }

    /// The first campaign has nine of ten mails, as it has nine of ten slots; more than two have the same each.
    fn scenario(self) -> Scenario {
        let load = |number: u64| CampaignLoad {
            name: format!("c{number}"),
            weight: if self.campaigns == 2 && number == 0 { 9 } else { 1 },
            mails: match (self.campaigns, number) {
                (2, 0) => self.mails / 10 * 9,
                (2, _) => self.mails / 10,
                (all, _) => self.mails / all,
            },
            recipients: 1,
        };
        Scenario {
            channel: self.channel,
            campaigns: (0..self.campaigns).map(load).collect(),
            quota: self.quota,
            mail_kb: self.mail_kb,
            merge: self.merge,
            ..Scenario::new(Timestamp::from_millis(1_795_207_000_000))
        }
    }
}

/// Without SES's price.
fn total(cost: &Cost) -> f64 {
    SERVICES.iter().map(|(_, of)| of(cost)).sum()
}

fn dollars(value: f64) -> String {
    match format!("{value:.0}") {
        _ if value < 100.0 => format!("${value:.2}"),
        whole if whole.len() > 3 => {
            let (thousands, rest) = whole.split_at(whole.len() - 3);
            format!("${thousands},{rest}")
        }
        whole => format!("${whole}"),
    }
}

fn change(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "+" };
    if value.abs() < 0.005 { "0".to_owned() } else { format!("{sign}{}", dollars(value.abs())) }
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

fn head(first: &str, names: [&str; 3]) -> String {
    format!("| {first} | {} |\n| --- | ---: | ---: | ---: |\n", names.join(" | "))
}

fn table(names: [&str; 3], costs: &[Cost; 3]) -> String {
    let services =
        SERVICES.map(|(name, of)| row(name, costs.iter().map(|cost| dollars(of(cost))))).concat();
    let all = row("**Tidegate**", costs.iter().map(|cost| format!("**{}**", dollars(total(cost)))));
    head("a month", names) + &services + &all
}

/// Of a list of 10 million rows, `make bench ONLY=store`: the scheduler's writes and lists of S3 at 200 a second, and its reads.
const LIST: Month = Month { mails: 10_000_000, quota: 200.0, ..IDLE };
const LIST_WRITES: f64 = 114_161.0;
const LIST_READS: f64 = 15_000.0;

/// From the upload to the last mail: the rows' messages are enqueued by the scheduler, which runs anyway.
fn list_table() -> String {
    let prices = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/cost/prices.json");
    let prices = std::fs::read_to_string(prices).unwrap();
    let prices: serde_json::Value = serde_json::from_str(&prices).unwrap();
    let price = |name: &str| prices[name]["dollars"].as_f64().unwrap();
    let chunks = tidegate_core::number::real(LIST.mails / ROWS as u64);
    let s3 = [
        ("S3: the upload", (chunks + 1.0) * price("s3_write")),
        ("S3: the scheduler", LIST_WRITES * price("s3_write") + LIST_READS * price("s3_read")),
    ];
    let s3_all: f64 = s3.iter().map(|(_, cost)| cost).sum();
    let costs = [4, 30].map(|mail_kb| Month { mail_kb, ..LIST }.sending().0);
    let cells = |of: &dyn Fn(&Cost) -> String| [of(&costs[0]), of(&costs[1])].into_iter();
    let services =
        SERVICES[..5].iter().map(|(name, of)| row(name, cells(&|cost| dollars(of(cost)))));
    let s3 = s3.map(|(name, cost)| row(name, cells(&|_| dollars(cost))));
    let sum = |cost: &Cost| SERVICES[..5].iter().map(|(_, of)| of(cost)).sum::<f64>() + s3_all;
    let all = row("**Tidegate**", cells(&|cost| format!("**{}**", dollars(sum(cost)))));
    let ses = row("SES beside it", cells(&|cost| dollars(cost.ses)));
    let head = "| 10 M rows, 200/s | mails of 4 KB | mails of 30 KB |\n| --- | ---: | ---: |\n";
    [head.to_owned(), services.collect(), s3.concat(), all, ses].concat()
}

type Change = (&'static str, fn(Month) -> Month);

#[test]
fn the_page_has_what_is_calculated() {
    let names = ["idle", "1 M mails, 14/s", "100 M mails, 200/s"];
    let months = [IDLE, MILLION, HUNDRED];
    let costs = months.map(Month::cost);
    let ses = row("SES beside it", costs.iter().map(|cost| dollars(cost.ses)));
    let changes: [Change; 9] = [
        ("300 campaigns", |month| Month { campaigns: 300, ..month }),
        ("1,000 campaigns", |month| Month { campaigns: 1_000, ..month }),
        ("`Mode` direct", |month| Month { merge: false, ..month }),
        ("mails of 30 KB", |month| Month { mail_kb: 30, ..month }),
        ("mails of 30 KB, `Mode` direct", |month| Month { mail_kb: 30, merge: false, ..month }),
        ("`IdleWakeSeconds` 30", |month| Month { wake_seconds: 30, ..month }),
        ("`IdleWakeSeconds` 10", |month| Month { wake_seconds: 10, ..month }),
        ("`IdleWakeSeconds` 5", |month| Month { wake_seconds: 5, ..month }),
        ("`IdleWakeSeconds` 1", |month| Month { wake_seconds: 1, ..month }),
    ];
    let changes = changes.map(|(name, of)| {
        let more = |(month, was): (&Month, &Cost)| change(total(&of(*month).cost()) - total(was));
        row(name, months.iter().zip(&costs).map(more))
    });
    let texts = |mails, quota| Month { mails, quota, channel: Channel::Sms, ..IDLE }.cost();
    let of_texts = table(
        ["idle, texts", "1 M texts, 14 parts/s", "1 M texts, 100 parts/s"],
        &[texts(0, 14.0), texts(1_000_000, 14.0), texts(1_000_000, 100.0)],
    );
    let mails = table(names, &costs) + &ses;
    let changes = head("changes it by", names) + &changes.concat();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = root.join("docs/cost.md");
    for (name, table) in
        [("months", mails), ("changes", changes), ("texts", of_texts), ("list", list_table())]
    {
        let text = std::fs::read_to_string(&page).unwrap();
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
        let (before, rest) = text.split_once(&begin).unwrap();
        let (written, after) = rest.split_once(&end).unwrap();
        if std::env::var_os("SNAPSHOTS").is_some_and(|wanted| wanted == "overwrite") {
            std::fs::write(&page, format!("{before}{begin}{table}{end}{after}")).unwrap();
        } else {
            assert_eq!(written, table, "SNAPSHOTS=overwrite writes it");
        }
    }
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let idle = dollars(total(&costs[0]));
    let said = format!("A stack without mail costs [{idle} a month](docs/cost.md)");
    assert!(readme.contains(&said), "{said}");
}

/// Ten mails of 30 KB become ten of 6 KB, which fit into one request.
#[test]
fn compressed_newsletters_cost_at_most_a_250th_of_what_ses_does() {
    for (merge, most) in [(true, 0.004), (false, 0.0025)] {
        let cost = Month { mail_kb: 30, merge, ..HUNDRED }.cost();
        assert!(total(&cost) < most * cost.ses, "{cost:?}");
    }
}

#[test]
fn memory_follows_the_formula_on_the_page_of_figures() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures.md");
    let text = std::fs::read_to_string(page).unwrap();
    assert!(text.contains("`1,769 MB × mails per second × (0.7 ms + 0.016 ms per KB) / 0.75`"));
    for (per_second, kilobytes) in [(200.0, 4_u32), (200.0, 30), (200.0, 50)] {
        let needed = 1_769.0 * per_second * (0.7 + 0.016 * f64::from(kilobytes)) / 1e3 / 0.75;
        let megabytes = Memory::needed(per_second, kilobytes).0;
        assert_eq!(format!("{:.0}", needed.ceil()), megabytes.to_string());
    }
}
