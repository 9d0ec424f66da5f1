//! The parser of JSONPath.

use evenkeel_schema::json::Value;

use super::{Comparison, PathError, Slice, Step};

/// The deepest nesting of paths, as in filters within filters. Deeper paths would overflow the stack; real
/// columns do not nest twice.
const DEPTH_MAX: usize = 16;

/// Parses the inside of a `{…}` template.
pub(super) fn action(text: &str) -> Result<Vec<Step>, PathError> {
    action_at(text, 0)
}

fn action_at(text: &str, depth: usize) -> Result<Vec<Step>, PathError> {
    if depth > DEPTH_MAX {
        return Err(PathError);
    }
    let mut parser = Parser { rest: text, steps: Vec::new(), depth };
    while !parser.rest.is_empty() && !parser.rest.starts_with('}') {
        parser.step()?;
    }
    Ok(parser.steps)
}

struct Parser<'a> {
    rest: &'a str,
    steps: Vec<Step>,
    /// The number of paths that enclose this one.
    depth: usize,
}

impl<'a> Parser<'a> {
    fn step(&mut self) -> Result<(), PathError> {
        if let Some(rest) = self.rest.strip_prefix("[?(") {
            return self.filter(rest);
        }
        if let Some(rest) = self.rest.strip_prefix("..") {
            return self.descend(rest);
        }
        let first = self.rest.chars().next().ok_or(PathError)?;
        match first {
            ' ' | '@' | '$' => self.rest = &self.rest[1..],
            '[' => return self.brackets(),
            '"' | '\'' => return self.quoted(first),
            '.' => {
                self.rest = &self.rest[1..];
                self.field();
            }
            '+' | '-' | '0'..='9' => return self.number(),
            first if first == '_' || first.is_alphanumeric() => return self.word(),
            _ => return Err(PathError),
        }
        Ok(())
    }

    /// Parses a path nested in this one.
    fn inner(&self, text: &str) -> Result<Vec<Step>, PathError> {
        action_at(text, self.depth + 1)
    }

    /// Consumes the first `len` bytes.
    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn descend(&mut self, rest: &'a str) -> Result<(), PathError> {
        if self.steps.last() == Some(&Step::Descend) {
            return Err(PathError);
        }
        self.rest = rest;
        self.steps.push(Step::Descend);
        if self.rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
            self.field();
        }
        Ok(())
    }

    fn field(&mut self) {
        let mut escaped = false;
        let end = self.rest.find(|c: char| {
            let ends = !escaped && is_terminator(c);
            escaped = !escaped && c == '\\';
            ends
        });
        let name = self.take(end.unwrap_or(self.rest.len()));
        self.steps.push(match name {
            "*" => Step::Wildcard,
            name => Step::Field(name.replace('\\', "")),
        });
    }

    /// Parses `true` or `false`. All other words belong to templates and are errors in a column.
    fn word(&mut self) -> Result<(), PathError> {
        let end = self.rest.find(is_terminator).unwrap_or(self.rest.len());
        let literal = match self.take(end) {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => return Err(PathError),
        };
        self.steps.push(Step::Literal(literal));
        Ok(())
    }

    fn number(&mut self) -> Result<(), PathError> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest[sign..].find(|c: char| c != '.' && !c.is_ascii_digit());
        let text = self.take(digits.map_or(self.rest.len(), |digits| sign + digits));
        let integer = text.parse::<i64>().map(Value::from);
        let value = integer.or_else(|_| text.parse::<f64>().map(Value::from)).map_err(|_| PathError)?;
        self.steps.push(Step::Literal(value));
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<(), PathError> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => text.push(chars.next().map(|(_, c)| unescape(c)).ok_or(PathError)?),
                c if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    self.steps.push(Step::Literal(text.into()));
                    return Ok(());
                }
                c => text.push(c),
            }
        }
        Err(PathError)
    }

    fn brackets(&mut self) -> Result<(), PathError> {
        let end = self.rest.find(']').ok_or(PathError)?;
        let inside = &self.take(end + 1)[1..end];
        if inside.contains(',') {
            let paths = inside.split(',').map(|part| self.inner(&format!("[{}]", part.trim_matches(' '))));
            self.steps.push(Step::Union(paths.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let key = inside.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        match key {
            Some(key) if !key.contains('\'') => self.steps.extend(self.inner(&format!(".{key}"))?),
            _ => self.steps.push(Step::Slice(slice(inside)?)),
        }
        Ok(())
    }

    fn filter(&mut self, rest: &'a str) -> Result<(), PathError> {
        let end = filter_end(rest).ok_or(PathError)?;
        self.rest = rest[end + 1..].strip_prefix(']').ok_or(PathError)?;
        let text = &rest[..end];
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let comparison = text.find(is_operator).filter(|at| *at > 0).and_then(|at| {
            let (left, rest) = text.split_at(at);
            let len = rest.find(|c| !is_operator(c))?;
            Some((left, &rest[..len], &rest[len..]))
        });
        self.steps.push(match comparison {
            None => Step::Filter { left: self.inner(text)?, comparison: None },
            Some((left, operator, right)) => {
                let comparison = Some((operator_of(operator)?, self.inner(right)?));
                Step::Filter { left: self.inner(left)?, comparison }
            }
        });
        Ok(())
    }
}

/// Finds the closing parenthesis of a filter, skipping parentheses within quotes.
fn filter_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open && !escaped => quote = None,
            (')', None) => return Some(at),
            _ => {}
        }
        escaped = c == '\\';
    }
    None
}

fn operator_of(text: &str) -> Result<Comparison, PathError> {
    Ok(match text {
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        "==" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        ">=" => Comparison::GreaterOrEqual,
        ">" => Comparison::Greater,
        _ => return Err(PathError),
    })
}

fn slice(text: &str) -> Result<Slice, PathError> {
    if text == "*" {
        return Ok(Slice::default());
    }
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 {
        return Err(PathError);
    }
    let number = |index: usize| match parts.get(index).copied().unwrap_or_default() {
        "" => Ok(None),
        part => part.parse::<i64>().map(Some).map_err(|_| PathError),
    };
    let start = number(0)?;
    let single = parts.len() == 1;
    let end = if single { Some(start.unwrap_or(0).saturating_add(1)) } else { number(1)? };
    Ok(Slice { start, end, single, step: number(2)? })
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn unescape(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        other => other,
    }
}
