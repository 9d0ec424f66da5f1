//! Known gaps: where our answers differ from those of Kubernetes, and which issue closes the difference.
//!
//! The part of an answer that a gap names is not compared. A gap in which nothing differs any more fails the test, so
//! that the file lists real gaps only.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compare::{Difference, Wording, compare};
use crate::pointer;
use crate::symbols::canonical;

/// One known difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Gap {
    /// The name of the case.
    pub case: String,
    /// The number of the step, from zero.
    pub step: usize,
    /// The JSON pointer to the part of the step's answer that is not compared.
    pub pointer: String,
    /// The number of the issue that closes the gap, or zero if there is none.
    pub issue: u32,
}

/// Writes the gap as a line of the file of known gaps.
impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pointer = Value::from(self.pointer.as_str());
        write!(f, "- {{case: {}, step: {}, pointer: {pointer}, issue: {}}}", self.case, self.step, self.issue)
    }
}

/// All known gaps.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    by_case: BTreeMap<String, Vec<Gap>>,
}

/// The result of a comparison that leaves out the known gaps.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The differences that no gap names.
    pub differences: Vec<Difference>,
    /// The gaps in which nothing differs any more.
    pub closed: Vec<Gap>,
}

impl Gaps {
    /// Reads a list of gaps in YAML. A missing file is an empty list.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let gaps: Vec<Gap> = serde_saphyr::from_str(&text)
            .with_context(|| format!("{} is not a list of gaps", path.display()))?;
        let mut by_case: BTreeMap<String, Vec<Gap>> = BTreeMap::new();
        for gap in gaps {
            by_case.entry(gap.case.clone()).or_default().push(gap);
        }
        Ok(Self { by_case })
    }

    /// Returns the gaps of a case.
    pub fn of(&self, case: &str) -> &[Gap] {
        self.by_case.get(case).map_or(&[], Vec::as_slice)
    }

    /// Compares the answers to a case with the recorded ones, and leaves out what the gaps name.
    pub fn judge(&self, case: &str, want: &Value, got: &Value, wording: Wording) -> Verdict {
        let gaps = self.of(case);
        let differences = without(gaps.iter(), want, got, wording);
        // A gap is closed if the result is the same without it.
        let is_closed =
            |gap: &&Gap| without(gaps.iter().filter(|other| other != gap), want, got, wording) == differences;
        let closed = gaps.iter().filter(is_closed).cloned().collect();
        Verdict { differences, closed }
    }

    /// Returns the gaps that would make this case pass.
    ///
    /// The gaps of earlier steps are left out before later steps are compared, because a missing value shifts the
    /// numbers of all symbols after it.
    pub fn needed(case: &str, issue: u32, want: &Value, got: &Value) -> Vec<Gap> {
        let mut gaps: Vec<Gap> = Vec::new();
        loop {
            let differences = without(gaps.iter(), want, got, Wording::Strict);
            let Some(first) = differences.first().map(|difference| difference.step) else { return gaps };
            let new =
                differences.into_iter().take_while(|difference| difference.step == first).map(|difference| {
                    Gap { case: case.to_owned(), step: first, pointer: difference.pointer, issue }
                });
            gaps.extend(new);
        }
    }
}

fn without<'a>(
    gaps: impl Iterator<Item = &'a Gap> + Clone,
    want: &Value,
    got: &Value,
    wording: Wording,
) -> Vec<Difference> {
    let (mut want, mut got) = (want.clone(), got.clone());
    for gap in gaps {
        let path = pointer::parts(&gap.pointer);
        for answers in [&mut want, &mut got] {
            if let Some(answer) = answers.get_mut(gap.step) {
                blank(answer, &path);
            }
        }
    }
    compare(&canonical(&want), &canonical(&got), wording)
}

/// Replaces the value at a path by a constant. An entry that is missing in a map is added, so that a field that only
/// one side has is not a difference either.
fn blank(value: &mut Value, path: &[String]) {
    const BLANK: &str = "<gap>";
    match (value, path.split_first()) {
        (value, None) => *value = Value::from(BLANK),
        (Value::Object(map), Some((head, []))) => {
            map.insert(head.clone(), Value::from(BLANK));
        }
        (Value::Object(map), Some((head, rest))) => {
            if let Some(inner) = map.get_mut(head) {
                blank(inner, rest);
            }
        }
        (Value::Array(items), Some((head, rest))) => {
            if let Some(inner) = head.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                blank(inner, rest);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn gaps(list: &[(usize, &str)]) -> Gaps {
        let gap = |(step, pointer): &(usize, &str)| Gap {
            case: "c".into(),
            step: *step,
            pointer: (*pointer).into(),
            issue: 1,
        };
        Gaps { by_case: [("c".to_owned(), list.iter().map(gap).collect())].into() }
    }

    #[test]
    fn a_gap_hides_what_it_names_and_nothing_else() {
        let want = json!([{"body": {"a": "<uid:1>", "b": 1}}, {"body": "<uid:2>"}]);
        let got = json!([{"body": {"b": 2}}, {"body": "<uid:1>"}]);
        let verdict = gaps(&[(0, "/body/a")]).judge("c", &want, &got, Wording::Strict);
        let left: Vec<_> = verdict.differences.iter().map(|d| d.pointer.as_str()).collect();
        assert_eq!(left, ["/body/b"]);
        assert_eq!(verdict.closed, []);
    }

    #[test]
    fn a_gap_that_has_closed_is_told() {
        let answers = json!([{"body": {"a": 1}}]);
        let verdict = gaps(&[(0, "/body/a")]).judge("c", &answers, &answers, Wording::Strict);
        assert_eq!(verdict.closed.len(), 1);
    }

    #[test]
    fn the_needed_gaps_make_a_case_pass() {
        let want = json!([{"body": {"a": "<uid:1>"}}, {"body": {"x": "<uid:2>", "y": 1}}]);
        let got = json!([{"body": {}}, {"body": {"x": "<uid:1>", "y": 2}}]);
        let needed = Gaps::needed("c", 1, &want, &got);
        let places: Vec<_> = needed.iter().map(|gap| (gap.step, gap.pointer.as_str())).collect();
        assert_eq!(places, [(0, "/body/a"), (1, "/body/y")]);
    }
}
