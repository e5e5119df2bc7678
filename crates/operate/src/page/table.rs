use unicode_width::UnicodeWidthStr as _;

use super::{Span, Tone};

/// A table whose columns are as wide as their widest cell on a terminal.
#[derive(Clone, Debug, Default)]
pub struct TextTable {
    rows: Vec<Vec<Span>>,
    right: Vec<usize>,
}

impl TextTable {
    /// A table with these column names.
    pub fn new<'a>(columns: impl IntoIterator<Item = &'a str>) -> Self {
        let names = columns.into_iter().map(|name| Span::new(Tone::Faint, name)).collect();
        Self { rows: vec![names], right: Vec::new() }
    }

    pub fn bare() -> Self {
        Self::default()
    }

    /// Aligns the column with this index (from 0) to the right, as numbers should be.
    pub fn right(mut self, column: usize) -> Self {
        self.right.push(column);
        self
    }

    pub fn row<S: Into<Span>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub(super) fn into_lines(self) -> Vec<Vec<Span>> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.text.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let aligned = |row: Vec<Span>| {
            let cells = row.into_iter().zip(&widths).enumerate();
            let cells = cells.map(|(column, (cell, width))| {
                let blank = " ".repeat(width.saturating_sub(cell.text.width()));
                let right = self.right.contains(&column);
                let text = if right { blank + &cell.text } else { cell.text + &blank };
                Span { text: format!("  {text}"), tone: cell.tone }
            });
            trimmed(cells.collect())
        };
        self.rows.into_iter().map(aligned).collect()
    }
}

fn trimmed(mut cells: Vec<Span>) -> Vec<Span> {
    while cells.last().is_some_and(|cell| cell.text.trim_end().is_empty()) {
        cells.pop();
    }
    if let Some(last) = cells.last_mut() {
        last.text.truncate(last.text.trim_end().len());
    }
    cells
}
