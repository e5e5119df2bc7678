//! The fuzz targets' corpus, and the events, through the oracles: what was found once stays found.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: a panic is a finding")]

use std::path::{Path, PathBuf};

use tidegate_oracles::ALL;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The name of the file on which the oracle panicked, beside its message.
fn replay(target: &str, files: &[PathBuf]) {
    let (_, oracle) = ALL.iter().find(|(name, _)| *name == target).unwrap();
    let broken = files.iter().filter(|path| path.is_file()).filter(|file| {
        let bytes = std::fs::read(file).unwrap();
        std::panic::catch_unwind(|| oracle(&bytes)).is_err()
    });
    let broken: Vec<_> = broken.map(|file| file.display().to_string()).collect();
    assert!(broken.is_empty(), "{target} does not hold for {broken:#?}");
}

fn corpus(target: &str) -> Vec<PathBuf> {
    let files = files(&root().join("tests/fuzz/corpus").join(target));
    assert!(files.len() >= 10, "{} files for {target}", files.len());
    files
}

#[test]
fn every_message_of_the_corpus_and_every_event_is_refused_by_name_or_legal() {
    replay("message", &corpus("message"));
    replay("message", &files(&root().join("events")));
}

#[test]
fn every_tick_of_the_corpus_and_every_event_is_refused_by_name_or_reads_back() {
    replay("tick", &corpus("tick"));
    replay("tick", &files(&root().join("events")));
}

#[test]
fn every_envelope_and_dead_letter_of_the_corpus_reads_back_within_its_limit() {
    replay("attributes", &corpus("attributes"));
}

#[test]
fn every_environment_of_the_corpus_is_refused_by_name_or_within_its_table() {
    replay("configuration", &corpus("configuration"));
}

#[test]
fn every_corpus_has_its_oracle_and_its_dictionary() {
    let oracles: Vec<_> = ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut sorted = oracles.clone();
    sorted.sort();
    let names = |folder: &str| -> Vec<_> {
        let files = files(&root().join("tests/fuzz").join(folder));
        files.iter().map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    for folder in ["corpus", "dictionaries", "targets"] {
        assert_eq!(names(folder), sorted, "tests/fuzz/{folder}");
    }
}
