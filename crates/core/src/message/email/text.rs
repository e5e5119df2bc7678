//! Rules for texts that several fields use.

use crate::text::{SHOWN, is_word_of};

/// The overrides of direction: they show any text backwards, such as a file's ending. The other marks of direction
/// belong to texts that are written from right to left.
pub(super) const OVERRIDES: [char; 2] = ['\u{202d}', '\u{202e}'];

/// True if the text contains control characters; CR or LF could add a header line.
pub(super) fn has_control(text: &str) -> bool {
    text.chars().any(|c| c.is_control() || OVERRIDES.contains(&c))
}

/// True if a member's name may be shown in a field path. Other names may contain an address.
pub(super) fn is_plain_name(name: &str) -> bool {
    is_word_of(name, SHOWN, "_-.")
}

/// True for blanks outside ASCII, and for characters that show nothing: soft hyphens, characters of no width, those
/// that turn the direction of writing, variation selectors and tags.
pub(super) fn is_invisible(c: char) -> bool {
    let shows_nothing = matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}');
    shows_nothing || c.is_control() || !c.is_ascii() && c.is_whitespace()
}
