//! Rust source as tokens: enough to tell paths and items from comments and literals.

/// A piece of source, with its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) line: usize,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// An identifier, a keyword or a number.
    Word(&'a str),
    /// `::`
    PathSeparator,
    /// Any other character.
    Mark(char),
}

/// Splits source into tokens. Comments, strings, characters and lifetimes are left out.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while let Some(first) = rest.chars().next() {
        let (length, kind) = match first {
            _ if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), None),
            _ if rest.starts_with("/*") => (block_comment(rest), None),
            '"' => (string(rest), None),
            '\'' => (quote(rest), None),
            _ if raw_string(rest).is_some() => (raw_string(rest).unwrap_or_default(), None),
            _ if rest.starts_with("b\"") || rest.starts_with("c\"") => (1 + string(&rest[1..]), None),
            _ if rest.starts_with("b'") => (1 + quote(&rest[1..]), None),
            _ if rest.starts_with("::") => (2, Some(Kind::PathSeparator)),
            _ if is_word(first) => {
                let raw = if rest.starts_with("r#") { 2 } else { 0 };
                let length = raw + rest[raw..].find(|c| !is_word(c)).unwrap_or(rest.len() - raw);
                (length, Some(Kind::Word(&rest[raw..length])))
            }
            _ if first.is_whitespace() => (first.len_utf8(), None),
            _ => (first.len_utf8(), Some(Kind::Mark(first))),
        };
        found.extend(kind.map(|kind| Token { kind, line }));
        let (read, after) = rest.split_at(length);
        line += read.bytes().filter(|byte| *byte == b'\n').count();
        rest = after;
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of a block comment, with those inside of it.
fn block_comment(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of a string literal.
fn string(text: &str) -> usize {
    let mut escaped = true;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a raw string literal such as `r#"…"#`; `None` if the text does not begin with one.
fn raw_string(text: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| rest.trim_start_matches('#').starts_with('"'))
    })?;
    let rest = &text[prefix.len()..];
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(hashes));
    let open = prefix.len() + hashes + 1;
    Some(text[open..].find(&end).map_or(text.len(), |at| open + at + end.len()))
}

/// The length of what begins with a single quote: a character, or a lifetime.
fn quote(text: &str) -> usize {
    let inner = &text[1..];
    if inner.starts_with('\\') {
        return inner[2..].find('\'').map_or(text.len(), |at| 1 + 2 + at + 1);
    }
    let first = inner.chars().next().map_or(0, char::len_utf8);
    match inner[first..].starts_with('\'') {
        true => 1 + first + 1,
        false => 1 + inner.find(|c| !is_word(c)).unwrap_or(inner.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        let text = |token: Token<'_>| match token.kind {
            Kind::Word(word) => word.to_owned(),
            Kind::PathSeparator => "::".to_owned(),
            Kind::Mark(mark) => mark.to_string(),
        };
        let found: Vec<String> = tokens(source).into_iter().map(text).collect();
        assert_eq!(found.join(" "), expected, "{source}");
    }

    #[test]
    fn comments_and_literals_are_left_out() {
        check("a // crate::b\nc /* d /* e */ f */ g", "a c g");
        check(r#"a "crate::b \" c" d"#, "a d");
        check(r##"a r"\" b r#"c " d"# e br"f" b"g" h"##, "a b e h");
        check(r"a 'b' c '\'' d '\u{e9}' e b'f' g 'é' h", "a c d e g h");
        check("fn f<'a>(x: &'a str) -> &'static r#type", "fn f < > ( x : & str ) - > & type");
        check("r * br::b", "r * br :: b");
        check("x\"unfinished", "x");
    }

    #[test]
    fn tokens_know_their_line() {
        let lines: Vec<usize> = tokens("a\n/*\n*/ b \"\n\" c").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 3, 4]);
    }
}
