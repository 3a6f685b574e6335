//! The tokens of an expression: numbers, names and signs, each with its position in the text. Pure.

/// A token of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Number(f64),
    Name(&'a str),
    Sign(&'static str),
    End,
}

/// An error in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// The byte where it begins; the length of the text stands for its end.
    pub(super) at: usize,
    pub(super) message: String,
}

impl Wrong {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    /// The position in the text, and the error there.
    pub(super) fn message(&self, text: &str) -> String {
        let Self { at, message } = self;
        match text.get(*at..).filter(|rest| !rest.is_empty()) {
            Some(rest) => {
                let (before, line) = (text[..*at].chars().count(), rest.lines().next().unwrap_or_default());
                let shown: String = line.chars().take(SHOWN).collect();
                let more = if shown.len() < line.len() { "..." } else { "" };
                format!("at character {}, before {:?}: {message}", before + 1, shown + more)
            }
            None => format!("at its end: {message}"),
        }
    }
}

/// Characters of the remaining text that a message shows.
const SHOWN: usize = 16;

/// Longer signs come first.
const SIGNS: [&str; 15] = ["<=", ">=", "==", "!=", "+", "-", "*", "/", "%", "^", "<", ">", "(", ")", ","];

/// Notations of other languages, and what to write here.
const ELSEWHERE: [(&str, &str); 8] = [
    ("**", "powers are written x ^ y"),
    ("&", "write and"),
    ("|", "write or"),
    ("!", "write not"),
    ("=", "write == to compare"),
    ("?", "write if(condition, value, other value)"),
    ("[", "write ( and )"),
    ("{", "write ( and )"),
];

/// The tokens of `text` with their byte positions, followed by `End`.
///
/// # Errors
/// A character that begins no token, or an invalid number.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, Wrong> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let elsewhere = ELSEWHERE.iter().find(|(sign, _)| rest.starts_with(sign));
        let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
        let (length, token) = match (rest.chars().next(), elsewhere, sign) {
            (None, ..) => {
                tokens.push((at, Token::End));
                return Ok(tokens);
            }
            (_, Some(("**", advice)), _) | (_, Some((_, advice)), None) => return Err(Wrong::new(at, *advice)),
            (_, _, Some(sign)) => (sign.len(), Token::Sign(sign)),
            (Some(first), ..) if first.is_ascii_digit() || first == '.' => {
                let number = &rest[..number_length(rest)];
                let value = number.parse().ok().filter(|value: &f64| value.is_finite());
                (number.len(), Token::Number(value.ok_or_else(|| Wrong::new(at, format!("{number} is not a number")))?))
            }
            (Some(first), ..) if begins_a_name(first) => {
                let name = &rest[..rest.find(|c: char| !begins_a_name(c) && !c.is_ascii_digit()).unwrap_or(rest.len())];
                (name.len(), Token::Name(name))
            }
            (Some(first), ..) => return Err(Wrong::new(at, format!("{first:?} has no meaning here"))),
        };
        tokens.push((at, token));
        at += length;
    }
}

/// Whether the text can name an input in an expression.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(begins_a_name) && text.chars().all(|c| begins_a_name(c) || c.is_ascii_digit())
}

const fn begins_a_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Length of the number at the start of the text: digits, a point and an exponent.
fn number_length(text: &str) -> usize {
    let digits = |from: usize| from + text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(0);
    let mantissa = if text[whole..].starts_with('.') { digits(whole + 1) } else { whole };
    let signed = match &text.as_bytes()[mantissa..] {
        [b'e' | b'E', b'+' | b'-', ..] => mantissa + 2,
        [b'e' | b'E', ..] => mantissa + 1,
        _ => return mantissa,
    };
    let end = digits(signed);
    if end > signed { end } else { mantissa }
}
