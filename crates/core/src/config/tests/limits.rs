use super::super::PollerConfig;
use super::*;

fn read(limits: &str, queues: &str) -> Result<LimitsConfig, String> {
    let lookup = |name: &str| match name {
        "TIDEGATE_LIMITS" => Some(limits.to_owned()),
        "TIDEGATE_LIMIT_QUEUES" => Some(queues.to_owned()),
        "TIDEGATE_LEDGER" => Some("memory".to_owned()),
        "TIDEGATE_DEAD_LETTER_QUEUE_URL" => Some("https://sqs/1/dead".to_owned()),
        "TIDEGATE_CAMPAIGNS" => Some("ledger".to_owned()),
        _ => None,
    };
    let config = PollerConfig::from_variables(lookup).map_err(|error| error.to_string())?;
    Ok(config.limits)
}

#[test]
fn a_queue_for_each_group_and_more_are_taken() {
    assert_eq!(read("", "").unwrap(), LimitsConfig::default());
    let config =
        read("gmail.com=10/s, *=5%", "https://sqs/1/a,https://sqs/1/b, https://sqs/1/c").unwrap();
    assert_eq!((config.initial.len(), config.queues[2].as_str()), (2, "https://sqs/1/c"));
}

#[test]
fn a_list_without_its_queues_is_refused_with_what_it_needs() {
    for (limits, queues, said) in [
        (
            "gmail.com=10/s, *=5%",
            "",
            "TIDEGATE_LIMIT_QUEUES is not set; allowed is at least 2 URLs",
        ),
        (
            "gmail.com=10/s, *=5%",
            "https://sqs/1/a",
            "allowed is at least 2 URLs of standard queues, one for each group",
        ),
        ("gmail.com=10/s", "https://sqs/1/a.fifo", "allowed is at most 21 URLs of standard queues"),
        ("gmail.com=10/s", "https://sqs/1/a,https://sqs/1/a", "none twice"),
        (
            "gmail.com=fast",
            "https://sqs/1/a",
            "TIDEGATE_LIMITS is \"gmail.com=fast\"; allowed is \"fast\" is no rate",
        ),
    ] {
        let error = read(limits, queues).unwrap_err();
        assert!(error.contains(said), "{limits} {queues}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
