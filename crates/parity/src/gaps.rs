//! Known gaps: where we are not yet what Kubernetes is, and which issue closes it.
//!
//! What a gap names is left out of the comparison of its case; everything else counts. A gap that has closed is an
//! error, so that the file never says less than we can.

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
    /// The case.
    pub case: String,
    /// The step, from zero.
    pub step: usize,
    /// What of the step's answer does not count: this and everything below.
    pub pointer: String,
    /// The issue that closes it; zero where none is open for it yet.
    pub issue: u32,
}

/// As a line of the file of known gaps.
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

/// What a comparison under known gaps found.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Differences that no gap names.
    pub differences: Vec<Difference>,
    /// Gaps where nothing differs any more.
    pub closed: Vec<Gap>,
}

impl Gaps {
    /// Reads a list of gaps in YAML; a file that is missing is an empty one.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let gaps: Vec<Gap> = serde_saphyr::from_str(&text)
            .with_context(|| format!("{} is no list of gaps", path.display()))?;
        let mut by_case: BTreeMap<String, Vec<Gap>> = BTreeMap::new();
        for gap in gaps {
            by_case.entry(gap.case.clone()).or_default().push(gap);
        }
        Ok(Self { by_case })
    }

    /// The gaps of a case.
    pub fn of(&self, case: &str) -> &[Gap] {
        self.by_case.get(case).map_or(&[], Vec::as_slice)
    }

    /// Compares the answers to a case with the recorded ones, leaving out what the gaps name.
    pub fn judge(&self, case: &str, want: &Value, got: &Value, wording: Wording) -> Verdict {
        let gaps = self.of(case);
        let differences = without(gaps.iter(), want, got, wording);
        // A gap is closed when counting what it names brings no difference.
        let is_closed =
            |gap: &&Gap| without(gaps.iter().filter(|other| other != gap), want, got, wording) == differences;
        let closed = gaps.iter().filter(is_closed).cloned().collect();
        Verdict { differences, closed }
    }

    /// The gaps that would make this case pass. Those of earlier steps are found first and left out before later
    /// steps are looked at: a value that is missing shifts the numbers of all symbols after it.
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

/// Makes what the path names the same everywhere. What is missing in a map is put there, so that a field that one
/// side lacks counts no more than one that differs.
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
