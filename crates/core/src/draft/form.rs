//! How the recipients and options of mails and of text messages are called.

use super::fault::column_name;
use crate::text::quoted;

/// The words of a table of recipients and of the options, by channel.
#[derive(Debug)]
pub(super) struct MessageForm {
    /// The message's member with the recipient.
    pub(super) recipient: &'static str,
    /// The columns of the recipient, of which the first one that there is counts.
    pub(super) columns: &'static [&'static str],
    /// Words in the names of other columns that may have the recipient.
    pub(super) column_words: &'static [&'static str],
    /// A recipient in words.
    pub(super) one: &'static str,
    pub(super) example: &'static str,
    /// The options by the message's members.
    pub(super) options: &'static [(&'static str, &'static str)],
    /// The recipient alone, without a name and blanks; says what is allowed where there is none.
    pub(super) plain: fn(&str) -> Result<String, String>,
}

impl MessageForm {
    /// Says how to name the recipient's column, as far as the first line of the CSV shows it.
    pub(super) fn column_hint(&self, columns: &[String]) -> String {
        let Some(first) = columns.first() else { return String::new() };
        let separator =
            [';', '\t', '|', ','].into_iter().find(|&separator| first.contains(separator));
        if let Some(separator) = separator.filter(|_| columns.len() == 1) {
            let value = match separator {
                '\t' => "tab".to_owned(),
                other => quoted(&other.to_string()),
            };
            return format!("; if that is the separator, add --delimiter {value}");
        }
        if columns.iter().any(|column| column_name(column) != column) {
            let named = self.columns.first().unwrap_or(&"");
            return format!(
                "; the first line has to name the columns, such as: {named},first_name"
            );
        }
        let is_it = |column: &&String| {
            let name = column.to_lowercase();
            name == "to" || self.column_words.iter().any(|word| name.contains(word))
        };
        let hint =
            |column: &String| format!("; if it is that one, add --to-column {}", quoted(column));
        columns.iter().find(is_it).map_or_else(String::new, hint)
    }
}
