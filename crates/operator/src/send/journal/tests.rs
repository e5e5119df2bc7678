use proptest::prelude::*;

use tidegate_core::runs::{RunInput, RunSender};
use tidegate_delivery::ports::Monotonic;

use super::*;

fn header() -> JournalHeader {
    let at = EpochMillis::new(1_795_206_967_042);
    let sender = RunSender { by: "ada".to_owned(), ..RunSender::default() };
    let list = RunInput { rows: 40, ..RunInput::default() };
    let run = Run::new("big", "november", list, sender, at);
    let format = InputFormat::Csv { delimiter: b',', multiline: false };
    let input = JournalInput { path: "in.csv".into(), format, to_column: None };
    let settings = [("input".to_owned(), "5f…".to_owned())].into();
    JournalHeader::of(&run, "https://sqs.example/big", settings, input)
}

fn writer(memory: &mut Vec<u8>) -> JournalWriter<&mut Vec<u8>> {
    JournalWriter::new(memory, "memory")
}

/// A journal of `batches`, and where each of its records ends.
fn written(batches: &[Vec<u64>], ended: bool) -> (Vec<u8>, Vec<usize>) {
    let mut memory = Vec::new();
    writer(&mut memory).record(&header()).unwrap();
    let mut ends = vec![memory.len()];
    for batch in batches {
        let ids: Vec<(u64, String)> = batch.iter().map(|row| (*row, format!("id-{row}"))).collect();
        let acknowledged =
            AcknowledgedRows::of(header().at, ids.iter().map(|(row, id)| (*row, id.as_str())));
        writer(&mut memory).acknowledge(acknowledged, Monotonic::default()).unwrap();
        ends.push(memory.len());
    }
    if ended {
        let at = EpochMillis::MAX;
        writer(&mut memory).record(&JournalRecord::Ended { at }).unwrap();
    }
    (memory, ends)
}

/// Some of the rows 1 to 40 in batches that ended in any order, each with some of its rows refused.
fn batches() -> impl Strategy<Value = Vec<Vec<u64>>> {
    let batches: Vec<Vec<u64>> = (0..4).map(|n| (n * 10 + 1..=n * 10 + 10).collect()).collect();
    let some = move |kept: Vec<bool>| -> Vec<Vec<u64>> {
        let kept = |row: &u64| kept[usize::try_from(*row).unwrap() - 1];
        let some = batches.iter().map(|batch| batch.iter().copied().filter(kept).collect());
        some.filter(|batch: &Vec<u64>| !batch.is_empty()).collect()
    };
    proptest::collection::vec(any::<bool>(), 40).prop_map(some).prop_shuffle()
}

proptest! {
    /// Cut at any byte: what is read is exactly the records before the cut, and what is not read is
    /// sent again: every row at least once, none twice of which the record stands.
    #[test]
    fn a_journal_cut_at_any_byte_has_every_whole_record_and_no_other(
        batches in batches(), ended: bool, cut in 0.0_f64..=1.0,
    ) {
        let (bytes, ends) = written(&batches, ended);
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss,
            clippy::cast_sign_loss, reason = "within the journal")]
        let cut = (bytes.len() as f64 * cut) as usize;
        let contents = read_journal("cut", &bytes[..cut], |_| {}).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count();
        prop_assert_eq!(contents.header.is_some(), whole > 0);
        let kept: Vec<u64> = batches.iter().take(whole.saturating_sub(1)).flatten().copied().collect();
        prop_assert_eq!(contents.acknowledged.count(), kept.len() as u64);
        prop_assert!(kept.iter().all(|row| contents.acknowledged.contains(*row)));
        prop_assert_eq!(contents.ended.is_some(), ended && cut == bytes.len());
        // What is appended after the cut is read back as well: the torn end is no part of it.
        let mut memory = bytes[..usize::try_from(contents.whole).unwrap()].to_vec();
        if contents.header.is_none() {
            writer(&mut memory).record(&header()).unwrap();
        }
        let rest = (1..=40).filter(|row| !contents.acknowledged.contains(*row));
        let rest = AcknowledgedRows::of(header().at, rest.map(|row| (row, "x")));
        writer(&mut memory).acknowledge(rest, Monotonic::default()).unwrap();
        let again = read_journal("again", memory.as_slice(), |_| {}).unwrap();
        prop_assert_eq!(again.acknowledged.count(), 40);
    }
}

#[test]
fn every_cut_of_one_journal_is_readable() {
    let (bytes, _) = written(&[vec![1, 2, 3], vec![7], vec![4, 6]], true);
    for cut in 0..=bytes.len() {
        let contents = read_journal("cut", &bytes[..cut], |_| {}).unwrap();
        assert!(contents.whole <= cut as u64);
    }
}

#[test]
fn a_line_within_that_is_no_record_is_named() {
    let (mut bytes, ends) = written(&[vec![1], vec![2]], false);
    bytes[ends[0] + 3] = b'?';
    let error = read_journal("big.journal", bytes.as_slice(), |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("big.journal:2: this is no record"), "{error}");
}

#[test]
fn a_file_that_is_no_journal_is_refused_and_left_as_it_is() {
    let folder = std::env::temp_dir().join(format!("tidegate-foreign-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("notes");
    for foreign in ["one line of notes", "{", "{\"tidegate_journal\":1,\"torn"] {
        std::fs::write(&path, foreign).unwrap();
        let opened = JournalWriter::open(&path);
        if foreign.starts_with('{') {
            assert_eq!(opened.unwrap().1.whole, 0, "{foreign}");
            continue;
        }
        let error = opened.unwrap_err().to_string();
        assert!(error.contains("notes:1: this is no record of a journal"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), foreign);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn another_format_is_refused_before_anything_of_it_is_read() {
    let line = b"{\"tidegate_journal\": 2, \"new\": true}\n";
    let error = read_journal("big.journal", line.as_slice(), |_| {}).unwrap_err().to_string();
    assert!(error.contains("of format 2; allowed is 1"), "{error}");
}

#[test]
fn what_differs_is_named_with_what_it_was_and_is() {
    let mut now = header();
    now.settings.insert("input".to_owned(), "6a…".to_owned());
    now.settings.insert("--text".to_owned(), "77…".to_owned());
    let differences = header().differences(&now);
    assert_eq!(differences, ["--text (not given then, 77… now)", "input (5f… then, 6a… now)"]);
}

#[test]
fn a_journal_is_one_process_s_and_its_torn_end_is_cut_off() {
    let folder = std::env::temp_dir().join(format!("tidegate-journal-{}", std::process::id()));
    let path = folder.join("deep/big.journal");
    let (bytes, ends) = written(&[vec![1], vec![2]], false);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    let (journal, contents) = JournalWriter::open(&path).unwrap();
    assert_eq!((contents.acknowledged.count(), contents.whole), (1, ends[1] as u64));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), ends[1] as u64);
    let error = JournalWriter::open(&path).unwrap_err();
    assert!(matches!(error, JournalError::InUse { .. }), "{error}");
    drop(journal);
    assert!(JournalWriter::open(&path).is_ok());
    std::fs::remove_dir_all(&folder).unwrap();
}
