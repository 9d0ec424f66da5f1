//! Generates texts that match a regular expression.

use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// How often `*` and `+` repeat at most, above their minimum.
const MORE: u32 = 3;
/// The range of readable characters, which are preferred if a class contains some of them.
const READABLE: (u32, u32) = (0x21, 0x7e);

/// Returns a text that matches the pattern. Choices are made by `below`, which returns a number below its argument.
/// Returns `None` for an unsupported pattern: one with word boundaries, or with the syntax of another language.
pub(super) fn sample(pattern: &str, below: &mut dyn FnMut(u64) -> u64) -> Option<String> {
    let parsed = regex_syntax::parse(pattern).ok()?;
    let mut text = String::new();
    write(&parsed, below, &mut text)?;
    Some(text)
}

fn write(pattern: &Hir, below: &mut dyn FnMut(u64) -> u64, text: &mut String) -> Option<()> {
    match pattern.kind() {
        HirKind::Empty => {}
        HirKind::Literal(literal) => text.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => text.push(member(class, below)?),
        HirKind::Look(Look::Start | Look::End) => {}
        HirKind::Look(_) => return None,
        HirKind::Repetition(repetition) => {
            let (least, most) = (repetition.min, repetition.max.unwrap_or(u32::MAX));
            let most = most.min(least.saturating_add(MORE));
            let times = u64::from(least) + below(u64::from(most - least) + 1);
            for _ in 0..times {
                write(&repetition.sub, below, text)?;
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, below, text)?,
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| write(part, below, text))?,
        HirKind::Alternation(parts) => {
            let chosen = usize::try_from(below(parts.len() as u64)).ok()?;
            write(parts.get(chosen)?, below, text)?;
        }
    }
    Some(())
}

/// Returns a character of a class, a readable one if possible.
fn member(class: &Class, below: &mut dyn FnMut(u64) -> u64) -> Option<char> {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => {
            class.iter().map(|range| (range.start().into(), range.end().into())).collect()
        }
        Class::Bytes(class) => class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
    };
    let readable = ranges.iter().map(|&(first, last)| (first.max(READABLE.0), last.min(READABLE.1)));
    let readable: Vec<(u32, u32)> = readable.filter(|(first, last)| first <= last).collect();
    let Some(&(first, last)) = readable.get(usize::try_from(below(readable.len().max(1) as u64)).ok()?)
    else {
        return char::from_u32(ranges.first()?.0);
    };
    char::from_u32(first + u32::try_from(below(u64::from(last - first) + 1)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns samples of a pattern, with choices made by counting.
    fn samples(pattern: &str) -> Vec<Option<String>> {
        let mut state = 0;
        let mut below = |bound: u64| {
            state += 7;
            state % bound
        };
        (0..20).map(|_| sample(pattern, &mut below)).collect()
    }

    #[test]
    fn samples_match() {
        for pattern in
            ["^[1-9][0-9]*(Mi|Gi|Ti)$", "^[a-z_][a-z0-9_]*$", r"^\d{2,3}-x?$", "^(a|b+)\\.c$", "^[^a]$"]
        {
            for sample in samples(pattern) {
                let sample = sample.expect("the pattern is simple");
                assert!(matches(pattern, &sample), "{sample:?} does not match {pattern}");
            }
        }
        assert_eq!(samples(r"\bword\b")[0], None);
        assert_eq!(samples("(?=ahead)")[0], None);
    }

    fn matches(pattern: &str, text: &str) -> bool {
        regex::Regex::new(pattern).expect("it is one").is_match(text)
    }
}
