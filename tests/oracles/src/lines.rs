//! Input of several texts: a line `name=value` each, so that a corpus file can be read.

/// Names and values; a line without `=` is left out, an empty value is not set.
pub(crate) struct Lines<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Lines<'a> {
    pub(crate) fn read(text: &'a str) -> Self {
        let lines = text.split('\n').filter_map(|line| line.split_once('='));
        Self(lines.filter(|(_, value)| !value.is_empty()).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.all(name).next()
    }

    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(found, _)| *found == name).map(|(_, value)| *value)
    }

    /// The number under `name`, at most `max`.
    pub(crate) fn number(&self, name: &str, max: usize) -> Option<usize> {
        self.get(name).and_then(|value| value.parse().ok()).map(|number: usize| number.min(max))
    }
}
