//! Where Jinja and other patterns stand in a template's source.

use std::ops::Range;

use regex_lite::Regex;

/// Raw blocks, comments, statements and placeholders; the group is a placeholder's expression.
const JINJA: &str =
    r"(?s)\{%-?\s*raw\s*-?%\}.*?\{%-?\s*endraw\s*-?%\}|\{#.*?#\}|\{%.*?%\}|\{\{[-+]?(.*?)[-+]?\}\}";

/// The pieces of Jinja, with the place of its expression for each that is a placeholder.
pub(super) fn pieces(source: &str) -> Vec<(Range<usize>, Option<Range<usize>>)> {
    let Ok(jinja) = Regex::new(JINJA) else { return Vec::new() };
    let range = |found: regex_lite::Match<'_>| found.range();
    let piece =
        |found: regex_lite::Captures<'_>| Some((range(found.get(0)?), found.get(1).map(range)));
    jinja.captures_iter(source).filter_map(piece).collect()
}

/// The source with a NUL for each byte of Jinja, so that every place is the same in both.
pub(super) fn outside(source: &str) -> String {
    without(source, pieces(source).into_iter().map(|(piece, _)| piece))
}

/// Where `pattern` is found: its first group that takes part, or all of it.
pub(super) fn found(pattern: &str, text: &str) -> Vec<Range<usize>> {
    let Ok(pattern) = Regex::new(pattern) else { return Vec::new() };
    let groups = |found: regex_lite::Captures<'_>| {
        found.iter().skip(1).flatten().next().or(found.get(0)).map(|group| group.range())
    };
    pattern.captures_iter(text).filter_map(groups).collect()
}

/// The text with a NUL for each byte of `ranges`.
pub(super) fn without(text: &str, ranges: impl IntoIterator<Item = Range<usize>>) -> String {
    let mut text = text.to_owned();
    for range in ranges {
        text.replace_range(range.clone(), &"\0".repeat(range.len()));
    }
    text
}

/// The line of a place, from 1.
pub(super) fn line(source: &str, at: usize) -> u64 {
    source[..at].matches('\n').count() as u64 + 1
}
