use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::Serialize;
use thiserror::Error;

/// Different characters that a token needs, and different steps from one character to the next: a
/// repeated word and a row such as `0123456789…` have fewer.
const VARIETY: usize = 8;
/// The longest name of who acts, in characters.
pub(super) const MOST_NAME: usize = 60;
/// Tokens of a console at most.
const MOST_TOKENS: usize = 100;

/// The console's secret: 16 to 256 visible ASCII characters that are no repetition and no row.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Reasons why a text is no token.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidToken {
    /// It is too short or too long, or has other characters.
    #[error(
        "the token has {0} characters, or others than visible ASCII; allowed are 16 to 256 of those"
    )]
    Form(usize),
    /// It could be guessed.
    #[error(
        "the token repeats few characters, or counts them up: take a random one, such as that of `openssl rand -hex 24`"
    )]
    Weak,
}

impl Token {
    /// A new one, of 256 random bits.
    pub fn random() -> Self {
        Self(BASE64.encode(rand::random::<[u8; 32]>()))
    }

    /// The secret itself, for the link that logs in.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let has_form =
            (16..=256).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if !has_form {
            return Err(InvalidToken::Form(text.chars().count()));
        }
        let characters: BTreeSet<u8> = text.bytes().collect();
        let next = text.bytes().skip(1).map(i16::from);
        let steps: BTreeSet<i16> = next.zip(text.bytes()).map(|(b, a)| b - i16::from(a)).collect();
        if characters.len() < VARIETY || steps.len() < VARIETY {
            return Err(InvalidToken::Weak);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The rights of who has a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Figures, `why`, dead letters and metrics.
    Look,
    /// All of these, and changes and replays.
    Act,
}

/// A token, with whom it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenHolder {
    /// The name in the history; none where holders give their names themselves.
    pub name: Option<String>,
    pub role: Role,
    pub token: Token,
}

/// The tokens of a console: one that all share, or one for each name.
///
/// ```
/// use tidegate_console::http::Tokens;
/// let one: Tokens = "5f9d0c6be1f7443a8a2b96d1".parse()?;
/// let two: Tokens = "# name role token
///     ada         act   5f9d0c6be1f7443a8a2b96d1
///     prometheus  look  c0e84f57a3b2c1d0e9f8a7b6".parse()?;
/// assert_eq!((one.holders().len(), two.holders().len()), (1, 2));
/// # Ok::<(), tidegate_console::http::InvalidTokens>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens(Vec<TokenHolder>);

/// Reasons why a text is no list of tokens. A line is named by its number: its words may be secrets.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidTokens {
    /// There is none, or there are too many.
    #[error("there are {0} tokens; allowed are 1 to {MOST_TOKENS}")]
    Number(usize),
    /// The only token is none.
    #[error(transparent)]
    Token(#[from] InvalidToken),
    /// The token in this line is none.
    #[error("line {line} of the tokens is not valid")]
    Line { line: usize, source: InvalidToken },
    /// The line has no three words, or another role.
    #[error(
        "line {0} of the tokens is not a name, `look` or `act`, and a token, such as `ada act 5f9d0c6be1f7…`: with several tokens each has a name"
    )]
    Words(usize),
    /// The name is too long, or has control characters.
    #[error(
        "the name in line {line} has {length} characters, or control characters; allowed are 1 to {MOST_NAME} others"
    )]
    Name { line: usize, length: usize },
    /// An earlier line has the same name or the same token.
    #[error("line {0} has the name or the token of an earlier line; each is one person's")]
    Twice(usize),
}

impl Tokens {
    /// Whoever has a token, in the order of the lines.
    pub fn holders(&self) -> &[TokenHolder] {
        &self.0
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Token> for Tokens {
    fn from(token: Token) -> Self {
        Self(vec![TokenHolder { name: None, role: Role::Act, token }])
    }
}

impl FromStr for Tokens {
    type Err = InvalidTokens;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lines = text.lines().map(str::trim).zip(1..);
        let lines: Vec<(&str, usize)> =
            lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')).collect();
        if let [(line, _)] = &lines[..]
            && line.split_whitespace().count() == 1
        {
            return Ok(line.parse::<Token>()?.into());
        }
        if !(1..=MOST_TOKENS).contains(&lines.len()) {
            return Err(InvalidTokens::Number(lines.len()));
        }
        let mut holders: Vec<TokenHolder> = Vec::new();
        for (words, line) in lines {
            let holder = holder(words, line)?;
            let is_known =
                |other: &TokenHolder| other.name == holder.name || other.token == holder.token;
            if holders.iter().any(is_known) {
                return Err(InvalidTokens::Twice(line));
            }
            holders.push(holder);
        }
        Ok(Self(holders))
    }
}

fn holder(words: &str, line: usize) -> Result<TokenHolder, InvalidTokens> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let [name, role, token] = words[..] else { return Err(InvalidTokens::Words(line)) };
    let role = match role {
        "look" => Role::Look,
        "act" => Role::Act,
        _ => return Err(InvalidTokens::Words(line)),
    };
    let length = name.chars().count();
    if length > MOST_NAME || name.chars().any(char::is_control) {
        return Err(InvalidTokens::Name { line, length });
    }
    let token = token.parse().map_err(|source| InvalidTokens::Line { line, source })?;
    Ok(TokenHolder { name: Some(name.to_owned()), role, token })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADAS: &str = "5f9d0c6be1f7443a8a2b96d1";
    const BOBS: &str = "c0e84f57a3b2c1d0e9f8a7b6";

    #[test]
    fn a_token_is_long_enough_hard_to_guess_and_never_shown() {
        assert_eq!("short".parse::<Token>(), Err(InvalidToken::Form(5)));
        assert_eq!("with spaces in the middle".parse::<Token>(), Err(InvalidToken::Form(25)));
        for weak in
            ["aaaaaaaaaaaaaaaa", "passwordpassword", "0123456789abcdef", "abcdefghijabcdefghij"]
        {
            assert_eq!(weak.parse::<Token>(), Err(InvalidToken::Weak), "{weak}");
        }
        for _ in 0..1_000 {
            let token = Token::random();
            assert_eq!(token.reveal().parse::<Token>().as_ref(), Ok(&token));
        }
        // As `openssl rand -hex 24` makes them.
        assert!("5f9d0c6be1f7443a8a2b96d1c0e84f57a3b2c1d0e9f8a7b6".parse::<Token>().is_ok());
        assert_eq!(format!("{:?}", Token::random()), "Token(…)");
    }

    #[test]
    fn a_token_alone_has_no_name_and_may_act() {
        for text in [ADAS, &format!("\n# shared\n  {ADAS}  \n")] {
            assert_eq!(text.parse::<Tokens>(), Ok(ADAS.parse::<Token>().unwrap().into()));
        }
        assert_eq!("short".parse::<Tokens>(), Err(InvalidToken::Form(5).into()));
    }

    #[test]
    fn each_of_several_has_a_name_and_a_role() {
        let tokens: Tokens = format!("ada act {ADAS}\n\n bob\tlook {BOBS}\n").parse().unwrap();
        let held = tokens.holders().iter().map(|holder| (holder.name.as_deref(), holder.role));
        assert_eq!(held.collect::<Vec<_>>(), [(Some("ada"), Role::Act), (Some("bob"), Role::Look)]);
        let one: Tokens = format!("ada look {ADAS}").parse().unwrap();
        assert_eq!(one.holders()[0].role, Role::Look);
    }

    #[test]
    fn a_line_that_is_wrong_is_named_and_not_shown() {
        for (text, error) in [
            (String::new(), InvalidTokens::Number(0)),
            (format!("{ADAS}\n{BOBS}"), InvalidTokens::Words(1)),
            (format!("ada act {ADAS}\nbob {BOBS}"), InvalidTokens::Words(2)),
            (format!("ada admin {ADAS}"), InvalidTokens::Words(1)),
            (format!("ada {ADAS}"), InvalidTokens::Words(1)),
            (format!("a\u{7}a act {ADAS}"), InvalidTokens::Name { line: 1, length: 3 }),
            (format!("# all\nada act {ADAS}\nada look {BOBS}"), InvalidTokens::Twice(3)),
            (format!("ada act {ADAS}\nbob look {ADAS}"), InvalidTokens::Twice(2)),
            (format!("{} act {ADAS}", "x".repeat(61)), InvalidTokens::Name { line: 1, length: 61 }),
            (
                format!("ada act {ADAS}\nbob look secret"),
                InvalidTokens::Line { line: 2, source: InvalidToken::Form(6) },
            ),
        ] {
            let refused = text.parse::<Tokens>().unwrap_err();
            assert_eq!(refused, error, "{text}");
            let said = tidegate_core::in_full(&refused);
            assert!(!said.contains(ADAS) && !said.contains("secret"), "{said}");
        }
        let many: Vec<String> = (0..101).map(|n| format!("n{n} look {ADAS}{n}")).collect();
        assert_eq!(many.join("\n").parse::<Tokens>(), Err(InvalidTokens::Number(101)));
    }
}
