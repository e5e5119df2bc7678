//! The alerts about event streams in `infra/console/alerts.yaml`: each fires when its cause is there, as
//! Prometheus's own `promtool` evaluates them on what `/metrics` says minute by minute.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{App, Arc, access, call, console};
use crate::event::ChangeKind;
use crate::stream::tests::change;
use crate::stream::{StreamClient, Subscription};
use tidegate_operator::connections::ClientAddress;

/// The environment variable with the path of `promtool`.
const PROMTOOL: &str = "TIDEGATE_PROMTOOL";
/// Minutes in which nothing is wrong, and minutes in which something is.
const QUIET: usize = 12;
const WRONG: usize = 12;

const ALERTS: [(&str, Cause); 3] = [
    ("TidegateConsoleDropsChanges", Cause::Slow(300)),
    ("TidegateConsoleQueueDeep", Cause::Slow(150)),
    ("TidegateConsoleReconnects", Cause::Returning),
];

#[derive(Clone, Copy, Debug)]
enum Cause {
    /// A client reads nothing while so many changes come.
    Slow(usize),
    /// A client comes back ten times a minute.
    Returning,
}

fn client(session: &str) -> StreamClient {
    let address = ClientAddress::of([192, 0, 2, 7].into());
    StreamClient { session: session.to_owned(), address }
}

fn read(mut stream: Subscription) -> JoinHandle<()> {
    tokio::spawn(async move { while stream.next().await.is_some() {} })
}

fn publish(app: &App, changes: usize) {
    for _ in 0..changes {
        app.shared.hub.change(|registry| registry.publish(change(ChangeKind::Progress, "x")));
    }
}

/// The samples of one scrape, by metric and labels as Prometheus writes them.
async fn scrape(app: &Arc<App>) -> BTreeMap<String, String> {
    let answer = call(app, "GET", "/metrics", &[], Value::Null).await;
    let lines = answer.body.lines().filter(|line| line.starts_with("tidegate_console_"));
    let samples = lines.filter_map(|line| line.rsplit_once(' '));
    samples.map(|(series, value)| (series.to_owned(), value.to_owned())).collect()
}

/// A scrape a minute, of a console with one good reader, and after [`QUIET`] minutes with a cause. Before, many
/// pages are cut off, come back once each, and are closed: nothing is wrong with that.
async fn scrapes(app: &Arc<App>, cause: Cause) -> Vec<BTreeMap<String, String>> {
    let hub = &app.shared.hub;
    let good = read(hub.subscribe(client("good"), None).unwrap());
    let mut scrapes = Vec::new();
    let (mut open, mut pages) = (Vec::<Subscription>::new(), Vec::<Subscription>::new());
    for minute in 0..QUIET + WRONG {
        pages.clear();
        if (QUIET - 3..QUIET - 1).contains(&minute) {
            let last = (minute == QUIET - 2).then_some("h-0");
            let page = |page: usize| hub.subscribe(client(&format!("page {page}")), last).unwrap();
            pages.extend((0..40).map(page));
        }
        if minute == QUIET {
            match cause {
                Cause::Slow(changes) => {
                    open.push(hub.subscribe(client("slow"), None).unwrap());
                    publish(app, changes);
                }
                Cause::Returning => {}
            }
        }
        for second in 0..60 {
            if second % 6 == 0 {
                publish(app, 1);
                if minute >= QUIET && matches!(cause, Cause::Returning) {
                    let last = Some("h-0");
                    drop(hub.subscribe(client("returning"), last));
                }
            }
            sleep(Duration::from_secs(1)).await;
        }
        scrapes.push(scrape(app).await);
    }
    good.abort();
    scrapes
}

/// A test of one alert in promtool's form. It is quiet before the cause, and fires at the end.
fn promtool_test(alert: &str, scrapes: &[BTreeMap<String, String>]) -> Value {
    let names: std::collections::BTreeSet<&String> =
        scrapes.iter().flat_map(BTreeMap::keys).collect();
    let series = names.into_iter().map(|series| {
        let value = |scrape: &BTreeMap<String, String>| {
            scrape.get(series).map_or_else(|| "_".to_owned(), Clone::clone)
        };
        let values: Vec<String> = scrapes.iter().map(value).collect();
        json!({"series": series, "values": values.join(" ")})
    });
    let firing = |alerts: &str| format!("count(ALERTS{{alertname{alerts},alertstate=\"firing\"}})");
    let at = |minute: usize, expr: String, samples: Value| json!({"expr": expr, "eval_time": format!("{minute}m"), "exp_samples": samples});
    json!({
        "interval": "1m",
        "input_series": series.collect::<Vec<_>>(),
        "promql_expr_test": [
            at(QUIET - 1, firing("=~\"TidegateConsole[DQR].*\""), json!([])),
            at(QUIET + WRONG - 1, firing(&format!("=\"{alert}\"")), json!([{"labels": "{}", "value": 1}])),
        ],
    })
}

fn promtool() -> PathBuf {
    let path = std::env::var_os(PROMTOOL).map(PathBuf::from).filter(|path| path.is_file());
    path.unwrap_or_else(|| {
        panic!("no promtool: `make test` finds or installs one; else set {PROMTOOL} to its path")
    })
}

#[tokio::test(start_paused = true)]
async fn each_alert_about_streams_fires_where_its_cause_is_there_and_not_before() {
    let promtool = promtool();
    let mut tests = Vec::new();
    for (alert, cause) in ALERTS {
        let mut seen = Vec::new();
        console(access("127.0.0.1:7878", None), async |app| {
            seen = scrapes(&app, cause).await;
        })
        .await;
        tests.push(promtool_test(alert, &seen));
    }
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/console/alerts.yaml");
    let file = std::env::temp_dir().join(format!("tidegate-alerts-{}.json", std::process::id()));
    // JSON is YAML.
    let text = json!({"rule_files": [rules], "evaluation_interval": "1m", "tests": tests});
    std::fs::write(&file, text.to_string()).unwrap();
    let run = Command::new(promtool).args(["test", "rules"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{}: {said}", file.display());
    std::fs::remove_file(file).unwrap();
}
