//! Kubernetes' dialect of JSONPath, as far as printer columns use it.
//!
//! The dialect differs from RFC 9535: field names may contain dashes, dots are escaped with a backslash, an
//! index out of bounds is an error instead of an empty result, and a comparison needs two values of the same
//! type.

mod parse;

use std::borrow::Cow;

use evenkeel_schema::json::Value;

/// A parsed JSONPath.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<Step>);

/// A path cannot be parsed, or does not fit the value that it is applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathError;

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// The member of a map with this name.
    Field(String),
    /// All direct children of a map or list.
    Wildcard,
    /// The value and all its descendants that have children (`..`).
    Descend,
    /// The items of a list at an index or in a range.
    Slice(Slice),
    /// The results of several paths, one after the other.
    Union(Vec<Vec<Step>>),
    /// The items of a list for which a comparison holds, or for which `left` finds anything.
    Filter { left: Vec<Step>, comparison: Option<(Comparison, Vec<Step>)> },
    /// A literal value, as on the right side of a comparison.
    Literal(Value),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    /// Set if the brackets hold a single index and no colon.
    single: bool,
    step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

type Values<'a> = Vec<Cow<'a, Value>>;

/// The number of values that any step of a path may produce. A cell shows a few hundred characters at most,
/// and every `..` in a path multiplies the number of values.
const VALUES_MAX: usize = 100_000;

impl JsonPath {
    /// Parses a path such as `.spec.containers[*].name`, without braces around it.
    pub(crate) fn parse(text: &str) -> Result<Self, PathError> {
        parse::action(text).map(Self)
    }

    /// Returns every value that the path matches.
    pub(crate) fn find<'a>(&self, root: &'a Value) -> Result<Values<'a>, PathError> {
        walk(vec![Cow::Borrowed(root)], &self.0)
    }
}

fn walk<'a>(mut values: Values<'a>, steps: &[Step]) -> Result<Values<'a>, PathError> {
    for step in steps {
        values = take(values, step)?;
        if values.len() > VALUES_MAX {
            return Err(PathError);
        }
    }
    Ok(values)
}

fn take<'a>(values: Values<'a>, step: &Step) -> Result<Values<'a>, PathError> {
    let mut results = Vec::new();
    match step {
        Step::Field(name) => {
            results.extend(values.into_iter().filter_map(|value| member(value, name)));
        }
        Step::Wildcard => values.into_iter().for_each(|value| results.extend(children(&value))),
        Step::Descend => values.into_iter().for_each(|value| descend(value, &mut results)),
        Step::Slice(slice) => {
            for value in values.into_iter().filter(|value| !value.is_null()) {
                let Some(chosen) = slice.of(&items(&value)?)? else { return Ok(results) };
                results.extend(chosen);
            }
        }
        Step::Union(paths) => {
            for path in paths {
                results.extend(walk(values.clone(), path)?);
            }
        }
        Step::Filter { left, comparison } => {
            for value in &values {
                for item in items(value)? {
                    if passes(&item, left, comparison.as_ref())? {
                        results.push(item);
                    }
                }
            }
        }
        Step::Literal(literal) => results.extend(values.iter().map(|_| Cow::Owned(literal.clone()))),
    }
    Ok(results)
}

fn member<'a>(value: Cow<'a, Value>, name: &str) -> Option<Cow<'a, Value>> {
    match value {
        Cow::Borrowed(value) => value.get(name).map(Cow::Borrowed),
        Cow::Owned(value) => value.get(name).cloned().map(Cow::Owned),
    }
}

fn children<'a>(value: &Cow<'a, Value>) -> Values<'a> {
    match value {
        Cow::Borrowed(Value::Object(map)) => map.values().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Object(map)) => map.values().cloned().map(Cow::Owned).collect(),
        Cow::Owned(Value::Array(items)) => items.iter().cloned().map(Cow::Owned).collect(),
        _ => Vec::new(),
    }
}

fn descend<'a>(value: Cow<'a, Value>, results: &mut Values<'a>) {
    let below = children(&value);
    if !below.is_empty() && results.len() <= VALUES_MAX {
        results.push(value);
        below.into_iter().for_each(|value| descend(value, results));
    }
}

fn items<'a>(value: &Cow<'a, Value>) -> Result<Values<'a>, PathError> {
    if value.is_array() { Ok(children(value)) } else { Err(PathError) }
}

impl Slice {
    /// Returns the chosen items. `None` if the slice is empty, which ends the step for all remaining values.
    fn of<'a>(self, items: &Values<'a>) -> Result<Option<Values<'a>>, PathError> {
        let len = items.len() as i64;
        let from_end = |index: i64| if index < 0 { index + len } else { index };
        let start = from_end(self.start.unwrap_or(0));
        let mut end = self.end.unwrap_or(len);
        if end < 0 || (end == 0 && self.single) {
            end += len;
        }
        if start == end {
            return Ok(None);
        }
        if start < 0 || start >= len || end < 0 || end > len || start > end {
            return Err(PathError);
        }
        let step = self.step.unwrap_or(1);
        if step <= 0 {
            return Err(PathError);
        }
        Ok(Some(items[start as usize..end as usize].iter().step_by(step as usize).cloned().collect()))
    }
}

fn passes(
    item: &Value,
    left: &[Step],
    comparison: Option<&(Comparison, Vec<Step>)>,
) -> Result<bool, PathError> {
    let lefts = walk(vec![Cow::Borrowed(item)], left);
    let Some((comparison, right)) = comparison else { return Ok(lefts.is_ok_and(|found| !found.is_empty())) };
    let lefts = lefts?;
    if lefts.is_empty() {
        return Ok(false);
    }
    let rights = walk(vec![Cow::Borrowed(item)], right)?;
    match (lefts.as_slice(), rights.as_slice()) {
        (_, []) => Ok(false),
        ([left], [right]) => comparison.holds(left, right),
        _ => Err(PathError),
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> Result<bool, PathError> {
        use std::cmp::Ordering;
        let order = match (left, right) {
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) if matches!(self, Self::Equal | Self::NotEqual) => a.cmp(b),
            (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64(), a.as_f64(), b.as_f64()) {
                (Some(a), Some(b), ..) => a.cmp(&b),
                (None, None, Some(a), Some(b)) => a.partial_cmp(&b).ok_or(PathError)?,
                _ => return Err(PathError),
            },
            _ => return Err(PathError),
        };
        Ok(match self {
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::GreaterOrEqual => order != Ordering::Less,
            Self::Greater => order == Ordering::Greater,
        })
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_schema::json::json;

    use super::*;

    fn check(path: &str, expected: Value) {
        let object = json!({
            "a": {"b-c": 1, "d.e": "dot", "n": null},
            "list": [{"t": "x", "v": 1, "on": true}, {"t": "y", "v": 2}, {"v": 3}],
            "empty": [],
        });
        let found = JsonPath::parse(path).and_then(|path| path.find(&object).map(|found| json!(found)));
        assert_eq!(found.unwrap_or(json!("error")), expected, "{path}");
    }

    #[test]
    fn fields_may_hold_dashes_and_escaped_dots() {
        check(".a.b-c", json!([1]));
        check(r".a.d\.e", json!(["dot"]));
        check(r".a['d\.e']", json!(["dot"]));
        check(".a['b-c']", json!([1]));
        check("$.a.b-c", json!([1]));
        check(".missing.x", json!([]));
        check(".a.n", json!([null]));
    }

    #[test]
    fn indexes_slices_and_unions() {
        check(".list[0].t", json!(["x"]));
        check(".list[-1].v", json!([3]));
        check(".list[0:2].v", json!([1, 2]));
        check(".list[::2].v", json!([1, 3]));
        check(".list[*].v", json!([1, 2, 3]));
        check(".list[0,2].v", json!([1, 3]));
        check(".list[7]", json!("error"));
        check(".empty[0]", json!("error"));
        check(".empty[*]", json!([]));
        check(".a[0]", json!("error"));
    }

    #[test]
    fn filters_compare_values_of_one_type() {
        check(r#".list[?(@.t=="y")].v"#, json!([2]));
        check(r#".list[?(@.t=='x')].v"#, json!([1]));
        check(".list[?(@.v>1)].v", json!([2, 3]));
        check(".list[?(@.v>=2)].v", json!([2, 3]));
        check(".list[?(@.v!=2)].v", json!([1, 3]));
        check(".list[?(@.on==true)].v", json!([1]));
        check(".list[?(@.t)].v", json!([1, 2]));
        check(r#".list[?(@.v=="1")].v"#, json!("error"));
    }

    #[test]
    fn wildcards_and_descent() {
        check(".list[0].*", json!([true, "x", 1]));
        check("..t", json!(["x", "y"]));
        check(".a.*", json!([1, "dot", null]));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for path in [".a[", ".a[x]", ".a[?(@.b]", "....a", ".a[?(@.b==\"x)]", ".a%"] {
            let parsed = JsonPath::parse(path);
            let found = parsed.and_then(|path| path.find(&json!({"a": 1})).map(|found| json!(found)));
            assert!(found.is_err() || found == Ok(json!([])), "{path}: {found:?}");
        }
    }
}
