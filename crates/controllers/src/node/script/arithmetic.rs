//! The arithmetic of the shell: whole numbers, `+ - * / %`, comparisons and brackets.

use super::syntax::DEPTH_MAX;

/// Evaluates an expression; `None` if it is not understood, divides by zero, or is beyond the range of numbers.
pub(super) fn evaluate(text: &str, variable: &mut dyn FnMut(&str) -> Option<String>) -> Option<i64> {
    let mut parser = Parser { rest: text.trim(), variable, depth: 0 };
    let value = parser.comparison()?;
    parser.rest.trim().is_empty().then_some(value)
}

struct Parser<'a, 'v> {
    rest: &'a str,
    variable: &'v mut dyn FnMut(&str) -> Option<String>,
    depth: usize,
}

impl Parser<'_, '_> {
    fn eat(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        self.rest = self.rest.trim_start();
        let found = operators.iter().find(|operator| self.rest.starts_with(**operator))?;
        self.rest = &self.rest[found.len()..];
        Some(found)
    }

    fn comparison(&mut self) -> Option<i64> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut value = self.sum()?;
        while let Some(operator) = self.eat(&["==", "!=", "<=", ">=", "<", ">"]) {
            let other = self.sum()?;
            value = i64::from(match operator {
                "==" => value == other,
                "!=" => value != other,
                "<=" => value <= other,
                ">=" => value >= other,
                "<" => value < other,
                _ => value > other,
            });
        }
        self.depth -= 1;
        Some(value)
    }

    fn sum(&mut self) -> Option<i64> {
        let mut value = self.product()?;
        while let Some(operator) = self.eat(&["+", "-"]) {
            let other = self.product()?;
            value = if operator == "+" { value.checked_add(other)? } else { value.checked_sub(other)? };
        }
        Some(value)
    }

    fn product(&mut self) -> Option<i64> {
        let mut value = self.factor()?;
        while let Some(operator) = self.eat(&["*", "/", "%"]) {
            let other = self.factor()?;
            value = match operator {
                "*" => value.checked_mul(other)?,
                "/" => value.checked_div(other)?,
                _ => value.checked_rem(other)?,
            };
        }
        Some(value)
    }

    fn factor(&mut self) -> Option<i64> {
        if self.eat(&["("]).is_some() {
            let value = self.comparison()?;
            self.eat(&[")"])?;
            return Some(value);
        }
        let negative = self.eat(&["-"]).is_some();
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix('$').unwrap_or(self.rest);
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        self.rest = after.strip_prefix('}').unwrap_or(after);
        let value: i64 = match word.parse() {
            Ok(number) => number,
            Err(_) if word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => {
                let value = (self.variable)(word)?;
                if value.is_empty() { 0 } else { value.parse().ok()? }
            }
            Err(_) => return None,
        };
        if negative { value.checked_neg() } else { Some(value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_evaluated_as_in_the_shell() {
        let value = |text: &str| evaluate(text, &mut |name| (name == "i").then(|| "7".to_owned()));
        assert_eq!(value("1 + 2 * 3"), Some(7));
        assert_eq!(value("(1 + 2) * -3"), Some(-9));
        assert_eq!(value("i % 2"), Some(1));
        assert_eq!(value("$i / 2 == 3"), Some(1));
        assert_eq!(value("${i} - 1 - 1"), Some(5));
        for wrong in ["", "1 +", "1 / 0", "9223372036854775807 + 1", "j", "1 2", "(1", "2 ** 3"] {
            assert_eq!(value(wrong), None, "{wrong}");
        }
        assert_eq!(value(&"(".repeat(10_000)), None);
    }
}
