//! Unified diffs, line by line, like Python's difflib. Kubernetes' messages contain diffs made by a port of it.

use std::collections::BTreeMap;

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;
/// From this many lines on, frequent lines do not anchor a match.
const MANY_LINES: usize = 200;

/// Lines `a` of the old text that equal, or become, lines `b` of the new one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Block {
    equal: bool,
    a: (usize, usize),
    b: (usize, usize),
}

/// The unified diff of two texts, without the names of files.
pub(super) fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let mut out = String::new();
    for group in groups(blocks(&old, &new)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        out.push_str(&format!("@@ -{} +{} @@\n", range(first.a.0, last.a.1), range(first.b.0, last.b.1)));
        for block in &group {
            let mut add = |sign: char, lines: &[&str]| {
                lines.iter().for_each(|line| out.extend([&sign.to_string(), *line, "\n"]));
            };
            if block.equal {
                add(' ', &old[block.a.0..block.a.1]);
            } else {
                add('-', &old[block.a.0..block.a.1]);
                add('+', &new[block.b.0..block.b.1]);
            }
        }
    }
    out
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

/// Splits the blocks wherever more than twice the context is unchanged, and drops unchanged lines far from a change.
fn groups(mut blocks: Vec<Block>) -> Vec<Vec<Block>> {
    if let Some(first) = blocks.first_mut().filter(|block| block.equal) {
        first.a.0 = first.a.0.max(first.a.1.saturating_sub(CONTEXT));
        first.b.0 = first.b.0.max(first.b.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = blocks.last_mut().filter(|block| block.equal) {
        last.a.1 = last.a.1.min(last.a.0 + CONTEXT);
        last.b.1 = last.b.1.min(last.b.0 + CONTEXT);
    }
    let mut groups = Vec::new();
    let mut group = Vec::new();
    for mut block in blocks {
        if block.equal && block.a.1 - block.a.0 > 2 * CONTEXT {
            let mut end = block;
            end.a.1 = end.a.1.min(end.a.0 + CONTEXT);
            end.b.1 = end.b.1.min(end.b.0 + CONTEXT);
            group.push(end);
            groups.push(std::mem::take(&mut group));
            block.a.0 = block.a.0.max(block.a.1 - CONTEXT);
            block.b.0 = block.b.0.max(block.b.1 - CONTEXT);
        }
        group.push(block);
    }
    if !group.is_empty() && !matches!(group[..], [only] if only.equal) {
        groups.push(group);
    }
    groups
}

/// The texts as a sequence of equal and changed blocks.
fn blocks(old: &[&str], new: &[&str]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut i, mut j) = (0, 0);
    let mut matches = matches(old, new);
    matches.push((old.len(), new.len(), 0));
    for (a, b, size) in matches {
        if i < a || j < b {
            blocks.push(Block { equal: false, a: (i, a), b: (j, b) });
        }
        (i, j) = (a + size, b + size);
        if size > 0 {
            blocks.push(Block { equal: true, a: (a, i), b: (b, j) });
        }
    }
    blocks
}

/// The matching runs of lines, adjacent ones joined, as (start in `old`, start in `new`, length).
fn matches(old: &[&str], new: &[&str]) -> Vec<(usize, usize, usize)> {
    let places = places(new);
    let mut queue = vec![(0, old.len(), 0, new.len())];
    let mut found = Vec::new();
    while let Some((a_low, a_high, b_low, b_high)) = queue.pop() {
        let (a, b, size) = longest(old, new, &places, (a_low, a_high), (b_low, b_high));
        if size == 0 {
            continue;
        }
        found.push((a, b, size));
        queue.push((a_low, a, b_low, b));
        queue.push((a + size, a_high, b + size, b_high));
    }
    found.sort_unstable();
    let mut joined: Vec<(usize, usize, usize)> = Vec::new();
    for (a, b, size) in found {
        match joined.last_mut() {
            Some(last) if last.0 + last.2 == a && last.1 + last.2 == b => last.2 += size,
            _ => joined.push((a, b, size)),
        }
    }
    joined
}

/// Returns where each line occurs in the new text. In a long text, lines that make up more than a hundredth are left
/// out.
fn places<'a>(new: &[&'a str]) -> BTreeMap<&'a str, Vec<usize>> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(index);
    }
    if new.len() >= MANY_LINES {
        let often = new.len() / 100 + 1;
        places.retain(|_, indices| indices.len() <= often);
    }
    places
}

/// Returns the longest run of equal lines in two ranges, and the first one if several are equally long.
fn longest(
    old: &[&str],
    new: &[&str],
    places: &BTreeMap<&str, Vec<usize>>,
    (a_low, a_high): (usize, usize),
    (b_low, b_high): (usize, usize),
) -> (usize, usize, usize) {
    let (mut a, mut b, mut size) = (a_low, b_low, 0);
    let mut lengths: BTreeMap<usize, usize> = BTreeMap::new();
    for (i, line) in old.iter().enumerate().take(a_high).skip(a_low) {
        let mut next = BTreeMap::new();
        let indices = places.get(line).map(Vec::as_slice).unwrap_or_default();
        for j in indices.iter().copied().filter(|j| (b_low..b_high).contains(j)) {
            let length = 1 + if j == 0 { 0 } else { lengths.get(&(j - 1)).copied().unwrap_or_default() };
            next.insert(j, length);
            if length > size {
                (a, b, size) = (i + 1 - length, j + 1 - length, length);
            }
        }
        lengths = next;
    }
    // Lines that are too frequent to anchor a run may still extend one.
    while a > a_low && b > b_low && old[a - 1] == new[b - 1] {
        (a, b, size) = (a - 1, b - 1, size + 1);
    }
    while a + size < a_high && b + size < b_high && old[a + size] == new[b + size] {
        size += 1;
    }
    (a, b, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_changes_are_separate_hunks() {
        let lines = |changed: &[usize]| -> String {
            let line = |n: usize| if changed.contains(&n) { format!("new {n}") } else { format!("{n}") };
            (1..=20).map(line).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(
            diff(&lines(&[]), &lines(&[2, 15])),
            "@@ -1,5 +1,5 @@\n 1\n-2\n+new 2\n 3\n 4\n 5\n\
             @@ -12,7 +12,7 @@\n 12\n 13\n 14\n-15\n+new 15\n 16\n 17\n 18\n"
        );
    }

    #[test]
    fn added_and_removed_lines() {
        assert_eq!(diff("a\nb\nc", "a\nc"), "@@ -1,3 +1,2 @@\n a\n-b\n c\n");
        assert_eq!(diff("a\nc", "a\nb\nc"), "@@ -1,2 +1,3 @@\n a\n+b\n c\n");
        assert_eq!(diff("a", "b"), "@@ -1 +1 @@\n-a\n+b\n");
        assert_eq!(diff("a\nb", "a\nb"), "");
    }

    #[test]
    fn frequent_lines_of_a_long_text_anchor_nothing() {
        let text = |name: &str, pairs: usize| vec![format!("{name}\nx"); pairs].join("\n");
        let hunks = |pairs: usize| diff(&text("a", pairs), &text("b", pairs)).matches("\n-a\n+b").count();
        assert_eq!(hunks(10), 10);
        // Only the last line of the long text can anchor a match, and the matching end is extended from it: one block
        // is replaced.
        assert_eq!(hunks(101), 0);
    }
}
