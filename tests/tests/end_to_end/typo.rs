//! The page "A typo in a campaign that is being sent": whoever has not got the wrong version gets the right one, nobody both.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::first_campaign::{blocks, folders, run, shell};
use crate::site::Site;
use crate::traces::get;

const READERS: usize = 3_000;

/// The list and the two templates, in the folder in which the page's commands run.
const FILES: &str = r"
seq 1 3000 | sed 's/.*/reader&@example.com,Reader &/' | (echo to,name; cat) > big.csv
echo '<title>Sale</title><p>https://exmaple.org/sale</p>' > wrong.html
echo '<title>The sale</title><p>https://example.org/sale</p>' > right.html
";

#[tokio::test]
async fn after_a_typo_everybody_gets_exactly_one_version_whatever_was_enqueued() {
    let mut site = Site::start(|setup| {
        setup.settings.plan.quota = 100.0;
        setup.schedule = true;
        setup.parameters.push(("Unsent".to_owned(), "release".to_owned()));
    })
    .await;
    let folders = folders(&site);
    run(FILES, &folders).await;
    let begin = "exec tidegate send big.csv --campaign big --template wrong.html --from news@example.org \
                 --max-backlog 200 --yes --local";
    let sending = shell(begin, &folders).stdout(Stdio::piped()).spawn().unwrap();
    site.fire().await;
    site.wait_for(150, 40).await;
    let block = blocks("docs/commands/cancel.md").pop().unwrap();
    let local = |line: &str| format!("{line} --local\n");
    run(&block.lines().map(local).collect::<String>(), &folders).await;
    let ended = sending.wait_with_output().await.unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.starts_with("Cancelled: ") && said.contains("--rest-of=big"), "{said}");
    site.wait_for(READERS, 90).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let url = format!("{}/_sandbox/mails?limit=10000", site.aws.sandbox.url());
    let mails: Vec<Value> = serde_json::from_str(&get(&url).await.unwrap()).unwrap();
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for mail in mails {
        let subject = mail["subject"].as_str().unwrap().to_owned();
        versions.entry(mail["to"].to_string()).or_default().push(subject);
    }
    assert_eq!(versions.len(), READERS);
    assert!(versions.values().all(|got| got.len() == 1), "somebody got two");
    let right = versions.values().filter(|got| got[0] == "The sale").count();
    assert!((2_000..2_900).contains(&right), "{right} got the right version");
}
