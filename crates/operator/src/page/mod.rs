//! Text output: lines, fields and tables, with colours for terminals.

mod table;

use std::fmt::{self, Display, Write as _};

use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};
pub use table::TextTable;

const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub trait View {
    fn view(&self, page: &mut Page);
}

/// The meaning of a piece of text, from which its colour follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Strong,
    Faint,
    Good,
    Warning,
    Bad,
}

impl Tone {
    pub const fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Strong => Style::new().bold(),
            Self::Faint => Style::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Warning => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
        }
    }
}

/// A piece of text with its tone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub text: String,
    pub tone: Tone,
}

impl Span {
    /// `text` in this tone. Control characters, and those that change the direction of writing, are shown
    /// as `\u{…}`, so that text from messages can neither control the terminal nor look like another.
    pub fn new(tone: Tone, text: impl Display) -> Self {
        Self { text: text.to_string().chars().flat_map(shown).collect(), tone }
    }
}

fn shown(c: char) -> impl Iterator<Item = char> {
    let escaped = is_steering(c).then(|| c.escape_default());
    let plain = (!is_steering(c)).then_some(c);
    escaped.into_iter().flatten().chain(plain)
}

/// Control characters, and the twelve of Unicode's bidirectional algorithm (UAX #9, 2).
fn is_steering(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl<T: Display> From<T> for Span {
    fn from(text: T) -> Self {
        Self::new(Tone::Plain, text)
    }
}

/// A part of the full height, 0 to 1, as one character; whatever is more than 0 is seen.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 8")]
pub(crate) fn bar(part: f64) -> char {
    let eighths = (part.clamp(0.0, 1.0) * 8.0).round().max(if part > 0.0 { 1.0 } else { 0.0 });
    BARS.get(eighths as usize).copied().unwrap_or(' ')
}

/// Text output. [`Display`] writes ANSI colours, which the program removes if they are not wanted;
/// [`Page::plain`] has none.
///
/// ```
/// use tidegate_operator::page::{Page, TextTable, Tone};
/// let mut page = Page::default();
/// page.heading("Campaigns");
/// let mut table = TextTable::new(["name", "weight"]).right(1);
/// table.row(["big", "90"]);
/// table.row(["small", "10"]);
/// page.table(table);
/// assert_eq!(page.plain(), "Campaigns\n  name   weight\n  big        90\n  small      10\n");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Page {
    lines: Vec<Vec<Span>>,
}

impl Page {
    /// Adds a heading, after an empty line if it is not the first line.
    pub fn heading(&mut self, text: impl Display) {
        if !self.lines.is_empty() {
            self.lines.push(Vec::new());
        }
        self.lines.push(vec![Span::new(Tone::Strong, text)]);
    }

    pub fn line(&mut self, tone: Tone, text: impl Display) {
        self.lines.push(vec![Span::new(tone, text)]);
    }

    pub fn spans(&mut self, spans: impl IntoIterator<Item = Span>) {
        self.lines.push(spans.into_iter().collect());
    }

    /// Adds names and values, one pair per line, with the values aligned.
    pub fn fields<'a>(&mut self, fields: impl IntoIterator<Item = (&'a str, Span)>) {
        let mut table = TextTable::bare();
        for (name, value) in fields {
            table.row([Span::new(Tone::Faint, name), value]);
        }
        self.table(table);
    }

    pub fn table(&mut self, table: TextTable) {
        self.lines.extend(table.into_lines());
    }

    /// The number of lines.
    pub const fn height(&self) -> usize {
        self.lines.len()
    }

    /// Adds another page below this one.
    pub fn append(&mut self, mut below: Self) {
        self.lines.append(&mut below.lines);
    }

    pub fn plain(&self) -> String {
        let text = strip_str(&self.to_string()).to_string();
        text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
    }

    pub fn of(view: &impl View) -> Self {
        let mut page = Self::default();
        view.view(&mut page);
        page
    }
}

impl Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            for span in line {
                let style = span.tone.style();
                write!(f, "{style}{}{style:#}", span.text)?;
            }
            f.write_char('\n')?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_message_says_cannot_steer_the_terminal() {
        let mut page = Page::default();
        page.line(Tone::Bad, "a\u{1b}[2Jb\nc");
        assert_eq!(page.plain(), "a\\u{1b}[2Jb\\nc\n");
    }

    #[test]
    fn what_a_message_says_is_read_in_the_order_in_which_it_is_written() {
        let mut page = Page::default();
        page.line(Tone::Bad, "invoice\u{202e}fdp.exe\u{2066}\u{200f}, שלום");
        assert_eq!(page.plain(), "invoice\\u{202e}fdp.exe\\u{2066}\\u{200f}, שלום\n");
    }

    #[test]
    fn colours_surround_the_text_and_plain_has_none() {
        let mut page = Page::default();
        page.line(Tone::Good, "kept");
        assert_eq!(page.to_string(), "\u{1b}[32mkept\u{1b}[0m\n");
        assert_eq!(page.plain(), "kept\n");
    }
}
