//! Parses label selectors of query strings exactly as Kubernetes does, edge cases included.

use super::{Operator, Requirement, check_key};
use crate::field::Path;

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Error,
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

fn keyword(text: &[u8]) -> Option<Token> {
    Some(match text {
        b")" => Token::Close,
        b"," => Token::Comma,
        b"!" => Token::Not,
        b"==" => Token::DoubleEquals,
        b"=" => Token::Equals,
        b">" => Token::Greater,
        b"in" => Token::In,
        b"<" => Token::Less,
        b"!=" => Token::NotEquals,
        b"notin" => Token::NotIn,
        b"(" => Token::Open,
        _ => return None,
    })
}

fn is_symbol(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Splits the text into tokens. A NUL byte ends the text, as in Kubernetes.
fn scan(text: &str) -> Vec<(Token, String)> {
    let bytes = text.as_bytes();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let bytes = &bytes[..end];
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        while at < bytes.len() && is_space(bytes[at]) {
            at += 1;
        }
        if at == bytes.len() {
            tokens.push((Token::End, String::new()));
            return tokens;
        }
        let (token, literal, next) = match is_symbol(bytes[at]) {
            true => scan_symbol(bytes, at),
            false => scan_word(bytes, at),
        };
        tokens.push((token, literal));
        at = next;
    }
}

fn scan_word(bytes: &[u8], start: usize) -> (Token, String, usize) {
    let length = bytes[start..].iter().position(|byte| is_symbol(*byte) || is_space(*byte));
    let end = length.map_or(bytes.len(), |length| start + length);
    let word = &bytes[start..end];
    let token = keyword(word).unwrap_or(Token::Identifier);
    (token, String::from_utf8_lossy(word).into_owned(), end)
}

/// The longest operator at `start`.
fn scan_symbol(bytes: &[u8], start: usize) -> (Token, String, usize) {
    let mut found = None;
    let mut end = start;
    while end < bytes.len() && is_symbol(bytes[end]) {
        match keyword(&bytes[start..=end]) {
            Some(token) => found = Some(token),
            None if found.is_some() => break,
            None => {}
        }
        end += 1;
    }
    let text = String::from_utf8_lossy(&bytes[start..end]);
    match found {
        Some(token) => (token, text.into_owned(), end),
        None => (Token::Error, format!("error expected: keyword found '{text}'"), end),
    }
}

struct Parser {
    tokens: Vec<(Token, String)>,
    at: usize,
}

impl Parser {
    /// Peeks at the next token where a key or a value is expected. There, `in` and `notin` are plain words.
    fn peek(&self) -> (Token, &str) {
        let (token, literal) = &self.tokens[self.at.min(self.tokens.len() - 1)];
        match token {
            Token::In | Token::NotIn => (Token::Identifier, literal),
            token => (*token, literal),
        }
    }

    fn next(&mut self) -> (Token, String) {
        let (token, literal) = self.next_operator();
        match token {
            Token::In | Token::NotIn => (Token::Identifier, literal),
            token => (token, literal),
        }
    }

    fn next_operator(&mut self) -> (Token, String) {
        let item = self.tokens[self.at.min(self.tokens.len() - 1)].clone();
        self.at += 1;
        item
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (key, operator) = self.key()?;
        if let Some(operator) = operator {
            return Requirement::new(key, operator, Vec::new());
        }
        let operator = self.operator()?;
        let mut values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.exact_value()?],
        };
        values.sort_unstable();
        values.dedup();
        Requirement::new(key, operator, values)
    }

    fn key(&mut self) -> Result<(String, Option<Operator>), String> {
        let (mut token, mut literal) = self.next();
        let negated = token == Token::Not;
        if negated {
            (token, literal) = self.next();
        }
        if token != Token::Identifier {
            return Err(format!("found '{literal}', expected: identifier"));
        }
        if let Some(error) = check_key(&Path::ROOT, &literal) {
            return Err(error.to_string());
        }
        let ends = matches!(self.peek().0, Token::End | Token::Comma);
        Ok(match (negated, ends) {
            (true, _) => (literal, Some(Operator::DoesNotExist)),
            (false, true) => (literal, Some(Operator::Exists)),
            (false, false) => (literal, None),
        })
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let (token, literal) = self.next_operator();
        Ok(match token {
            Token::In => Operator::In,
            Token::NotIn => Operator::NotIn,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::NotEquals => Operator::NotEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            _ => return Err(format!("found '{literal}', expected: {OPERATORS}")),
        })
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let (token, literal) = self.next();
        if token != Token::Open {
            return Err(format!("found '{literal}' expected: '('"));
        }
        match self.peek() {
            (Token::Identifier | Token::Comma, first) => {
                let first = first.to_owned();
                let values = self.identifiers()?;
                match self.next().0 {
                    Token::Close => Ok(values),
                    _ => Err(format!("found '{first}', expected: ')'")),
                }
            }
            (Token::Close, _) => {
                self.next();
                Ok(vec![String::new()])
            }
            (_, literal) => Err(format!("found '{literal}', expected: ',', ')' or identifier")),
        }
    }

    fn identifiers(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        loop {
            let (token, literal) = self.next();
            match token {
                Token::Identifier => {
                    values.push(literal);
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values),
                        (_, literal) => return Err(format!("found '{literal}', expected: ',' or ')'")),
                    }
                }
                Token::Comma => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek().0 {
                        Token::Close => {
                            values.push(String::new());
                            return Ok(values);
                        }
                        Token::Comma => values.push(String::new()),
                        _ => {}
                    }
                }
                _ => return Err(format!("found '{literal}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, String> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.next() {
            (Token::Identifier, literal) => Ok(literal),
            (_, literal) => Err(format!("found '{literal}', expected: identifier")),
        }
    }
}

/// Parses the requirements, in the order of the text.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser { tokens: scan(text), at: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            (Token::Identifier | Token::Not, _) => {}
            (Token::End, _) => return Ok(requirements),
            (_, literal) => {
                return Err(format!("found '{literal}', expected: !, identifier, or 'end of string'"));
            }
        }
        let requirement =
            parser.requirement().map_err(|error| format!("unable to parse requirement: {error}"))?;
        requirements.push(requirement);
        match parser.next() {
            (Token::End, _) => return Ok(requirements),
            (Token::Comma, _) => {
                let (token, literal) = parser.peek();
                if !matches!(token, Token::Identifier | Token::Not) {
                    return Err(format!("found '{literal}', expected: identifier after ','"));
                }
            }
            (_, literal) => return Err(format!("found '{literal}', expected: ',' or 'end of string'")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_as_kubernetes_does() {
        for (text, error) in [
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
            ("a=b,", "found '', expected: identifier after ','"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a===b", "unable to parse requirement: found '=', expected: identifier"),
            (
                "-a",
                "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            assert_eq!(parse(text).expect_err(text), error);
        }
    }

    #[test]
    fn a_key_that_does_not_exist_takes_no_operator() {
        assert_eq!(parse("!a=b").expect_err("refused"), "found '=', expected: ',' or 'end of string'");
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn never_panics_on_its_own_symbols(text in "[a=!(),<> in0-]{0,24}") {
            if let Ok(requirements) = parse(&text) {
                let printed: Vec<String> = requirements.iter().map(ToString::to_string).collect();
                prop_assert_eq!(parse(&printed.join(",")).expect("printed form parses"), requirements);
            }
        }
    }
}
