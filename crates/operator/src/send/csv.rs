//! The fields of a record of CSV.

/// The fields without the blanks around them, or the position of the one whose quote is not closed.
///
/// As spreadsheets write them, and people: blanks may stand before a quote, and what follows its end is part of the value.
pub(super) fn fields(record: &str, delimiter: u8) -> Result<Vec<String>, usize> {
    let delimiter = char::from(delimiter);
    let is_blank = |c: char| c != delimiter && c.is_whitespace();
    let mut fields = Vec::new();
    let mut rest = Some(record);
    while let Some(mut text) = rest {
        let mut value = String::new();
        if let Some(quoted) = text.trim_start_matches(is_blank).strip_prefix('"') {
            text = quoted;
            loop {
                let (inner, after) = text.split_once('"').ok_or(fields.len())?;
                value += inner;
                text = after;
                let Some(more) = after.strip_prefix('"') else { break };
                value.push('"');
                text = more;
            }
        }
        let (last, after) = text.split_once(delimiter).map_or((text, None), |(l, a)| (l, Some(a)));
        fields.push((value + last).trim().to_owned());
        rest = after;
    }
    Ok(fields)
}
