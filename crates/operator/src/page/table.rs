use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::{Span, Tone};

/// Spaces before each column.
const INDENT: u16 = 2;

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

    /// The rows with each cell as wide as its column. Each column is a table of its own to the crate that
    /// aligns it, so that a cell keeps its tone.
    pub(super) fn into_lines(self) -> Vec<Vec<Span>> {
        let mut lines = vec![Vec::new(); self.rows.len()];
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        for column in 0..columns {
            let cells = self.rows.iter().map(|row| row.get(column).cloned().unwrap_or_default());
            let cells: Vec<Span> = cells.collect();
            let mut aligned = Table::new();
            aligned.load_style(NOTHING).add_rows(cells.iter().map(|cell| [&cell.text]));
            if let Some(only) = aligned.column_mut(0).map(|only| only.set_padding((INDENT, 0)))
                && self.right.contains(&column)
            {
                only.set_cell_alignment(CellAlignment::Right);
            }
            for ((line, cell), text) in lines.iter_mut().zip(&cells).zip(aligned.lines()) {
                line.push(Span { text, tone: cell.tone });
            }
        }
        lines.into_iter().map(trimmed).collect()
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
