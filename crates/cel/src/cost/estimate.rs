//! The estimated cost of a single call, by the sizes of its arguments.

use crate::cost::range::Range;
use crate::cost::{Coster, PathTo};
use crate::types::{Opaque, Type};

/// The cost of reading one character of a string.
const TRAVERSAL: f64 = 0.1;
/// The cost of matching, for each character of the pattern.
const REGEX: f64 = 0.25;
/// The longest pattern of a named format.
const FORMAT_REGEX: f64 = 128.0;
const ONE: Range = Range::fixed(1);
const LIST: Range = Range::fixed(10);
/// The size of an IP address in bytes.
const ADDRESS: Range = Range { min: 4, max: 16 };

/// The cost of a call, and the size of its result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimate {
    pub(crate) cost: Range,
    pub(crate) size: Option<Range>,
}

impl Estimate {
    pub(crate) fn of(cost: Range) -> Self {
        Estimate { cost, size: None }
    }

    fn sized(cost: Range, size: Range) -> Self {
        Estimate { cost, size: Some(size) }
    }
}

/// The cost of one question to the authorizer. One expression can afford two.
const AUTHORIZATION: u64 = 350_000;

/// An argument of a call: its path, type and size.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) path: PathTo,
    pub(crate) cel_type: Type,
    pub(crate) size: Option<Range>,
    /// The value of an integer literal.
    pub(crate) literal: Option<i64>,
}

impl Node {
    fn size_or_unknown(&self) -> Range {
        self.size.unwrap_or(Range::UNKNOWN)
    }
}

/// The functions that cost the same whatever their arguments are.
const CONSTANT: [&str; 27] = [
    "masked",
    "prefixLength",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "format.named",
    "sign",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "major",
    "minor",
    "patch",
    "getScheme",
    "getHostname",
    "getHost",
    "getPort",
    "getEscapedPath",
    "getQuery",
];

/// Estimates a call of Kubernetes' libraries or of the CEL extensions that Kubernetes enables.
pub(crate) fn library(
    coster: &Coster<'_>,
    function: &str,
    overload: &str,
    target: Option<&Node>,
    args: &[Node],
) -> Option<Estimate> {
    if let Some(estimate) = extension(function, target, args) {
        return Some(estimate);
    }
    let size = |node: &Node| node.size.or_else(|| coster.declared_size(&node.path)).unwrap_or(Range::UNKNOWN);
    let first = args.first();
    Some(match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            let target = target?;
            let Some(element) = element(target) else {
                return Some(Estimate::of(size(target).scaled(TRAVERSAL)));
            };
            let mut cost = ONE;
            if matches!(element.cel_type, Type::String | Type::Bytes) {
                cost = cost.add(size(&element).scaled(TRAVERSAL));
            }
            Estimate::of(size(target).times(cost))
        }
        "url" => Estimate::sized(size(first?).scaled(TRAVERSAL), size(first?)),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            Estimate::sized(size(target?).scaled(TRAVERSAL), size(target?))
        }
        "replace" if args.len() >= 2 => replace(size(target?), size(&args[0]), size(&args[1])),
        "split" => {
            let text = size(target?);
            let max = args.get(1).and_then(|limit| limit.literal).map_or(text.max, |limit| limit as u64);
            Estimate::sized(text.scaled(2.0 * TRAVERSAL), Range { min: 0, max })
        }
        "join" => join(target?, element(target?).as_ref(), first, size),
        "find" | "findAll" => {
            let text = size(target?);
            let cost = text.add(ONE).scaled(TRAVERSAL).times(size(first?).scaled(REGEX));
            Estimate::sized(cost, Range { min: 0, max: text.max })
        }
        "ip" if overload == "cidr_ip" => Estimate::of(ONE),
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            Estimate::of(size(first?).scaled(TRAVERSAL))
        }
        "ip.isCanonical" => Estimate::of(size(first?).scaled(2.0 * TRAVERSAL)),
        "containsIP" | "containsCIDR" => contains(function, overload, size(first?)),
        "validate" => Estimate::of(size(first?).scaled(TRAVERSAL).scaled(FORMAT_REGEX * REGEX)),
        _ if CONSTANT.contains(&function) => Estimate::of(ONE),
        "_==_" => return equals(args),
        _ => return None,
    })
}

/// The items of a list, whose path is that of the list and a mark.
fn element(list: &Node) -> Option<Node> {
    let cel_type = (*list.cel_type.parameters().first()?).clone();
    let mut path = list.path.clone();
    if !path.is_empty() {
        path.push("@items".into());
    }
    Some(Node { path, cel_type, size: None, literal: None })
}

fn replace(text: Range, old: Range, new: Range) -> Estimate {
    let ratio = |size: u64, each: u64| (size as f64 / each as f64).ceil() as u64;
    let (mut count, mut kept) = (Range::fixed(0), Range::fixed(0));
    if old.min == 0 {
        (count.max, kept.max) = (text.max.saturating_add(1), text.max);
    } else if new.max <= old.min {
        kept.max = text.max;
    } else {
        count.max = ratio(text.max, old.min);
    }
    if old.max == 0 {
        (count.min, kept.min) = (text.min.saturating_add(1), text.min);
    } else if old.max <= new.min {
        kept.min = text.min;
    } else {
        count.min = ratio(text.min, old.max);
    }
    Estimate::sized(text.scaled(2.0 * TRAVERSAL), count.times(new).add(kept))
}

fn join(
    target: &Node,
    element: Option<&Node>,
    separator: Option<&Node>,
    size: impl Fn(&Node) -> Range,
) -> Estimate {
    let list = size(target);
    let mut total = element.map_or(Range::fixed(0), |element| list.times(size(element)));
    if let Some(separator) = separator {
        let count = Range { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
        total = total.add(size(separator).times(count));
    }
    Estimate::sized(total.scaled(TRAVERSAL), total)
}

fn contains(function: &str, overload: &str, other: Range) -> Estimate {
    let mut cost = ADDRESS.add(ADDRESS).scaled(TRAVERSAL);
    if function == "containsCIDR" {
        cost = cost.add(ADDRESS.scaled(TRAVERSAL)).add(ONE);
    }
    if overload.ends_with("_string") {
        cost = cost.add(other.scaled(TRAVERSAL));
    }
    Estimate::of(cost)
}

fn equals(args: &[Node]) -> Option<Estimate> {
    let [left, right] = args else { return None };
    let (Type::Opaque(a), Type::Opaque(b)) = (&left.cel_type, &right.cel_type) else { return None };
    if a != b {
        return None;
    }
    Some(Estimate::of(match a {
        Opaque::Format => Range { min: 1, max: 64 }.scaled(TRAVERSAL),
        Opaque::Url => Range { min: 1, max: right.size.map_or(1, |size| size.max) }.scaled(TRAVERSAL),
        _ => ONE,
    }))
}

/// Estimates a call of the list and set extensions.
fn extension(function: &str, target: Option<&Node>, args: &[Node]) -> Option<Estimate> {
    let list = |factor: f64, size: Range| Estimate::sized(size.scaled(factor).add(ONE).add(LIST), size);
    let number = |node: &Node, otherwise: u64| {
        node.literal.and_then(|value| u64::try_from(value).ok()).unwrap_or(otherwise)
    };
    Some(match (function, args) {
        ("slice", [start, end]) => {
            let size = target?.size_or_unknown();
            let length = number(end, size.max).wrapping_sub(number(start, 0));
            list(1.0, Range::fixed(length))
        }
        ("lists.range", [count]) => list(1.0, Range::fixed(number(count, u64::MAX))),
        ("reverse", []) => list(1.0, target?.size_or_unknown()),
        ("flatten", args) => {
            let depth = args.first().map_or(1, |depth| number(depth, u64::MAX));
            list(depth as f64, target?.size_or_unknown())
        }
        ("distinct", []) => {
            let size = target?.size_or_unknown();
            list(2.0, size.times(size))
        }
        ("sort" | "@sortByAssociatedKeys", _) => {
            let keys = args.first().or(target)?;
            let text =
                keys.cel_type.parameters().first().is_some_and(|of| matches!(of, Type::String | Type::Bytes));
            let size = keys.size_or_unknown();
            list(if text { 2.0 + TRAVERSAL } else { 2.0 }, size.times(size))
        }
        ("sets.contains" | "sets.intersects" | "sets.equivalent", [a, b]) => {
            let factor = if function == "sets.equivalent" { 2.0 } else { 1.0 };
            Estimate::of(a.size_or_unknown().times(b.size_or_unknown()).scaled(factor).add(ONE))
        }
        _ => return None,
    })
}

/// Estimates a call of CEL's standard functions.
pub(crate) fn standard(overload: &str, target: Option<&Node>, args: &[Node]) -> Estimate {
    let size = |index: usize| args.get(index).map_or(Range::UNKNOWN, Node::size_or_unknown);
    let on = target.map_or(Range::UNKNOWN, Node::size_or_unknown);
    match overload {
        "string_format" => Estimate::of(on.scaled(TRAVERSAL)),
        "string_to_bytes" => {
            let text = size(0);
            let bytes = Range { min: text.min, max: text.max.saturating_mul(4) };
            Estimate::sized(text.scaled(TRAVERSAL), bytes)
        }
        "bytes_to_string" => {
            let bytes = size(0);
            Estimate::sized(bytes.scaled(TRAVERSAL), Range { min: bytes.min / 4, max: bytes.max })
        }
        "pathcheck_check" | "resourcecheck_check" => {
            Estimate::of(Range { min: AUTHORIZATION, max: AUTHORIZATION })
        }
        "string_jsonpatch_escapeKey_string" => Estimate::of(size(0).scaled(TRAVERSAL)),
        "strings_quote" => {
            let text = size(0);
            let max = text.max.saturating_mul(2).saturating_add(2);
            Estimate::sized(text.scaled(TRAVERSAL), Range { min: text.min.saturating_add(2), max })
        }
        "starts_with_string" | "ends_with_string" => Estimate::of(size(0).scaled(TRAVERSAL)),
        "in_list" => Estimate::of(size(1)),
        "matches" => Estimate::of(size(0).add(ONE).scaled(TRAVERSAL).times(size(1).scaled(REGEX))),
        "matches_string" => Estimate::of(on.add(ONE).scaled(TRAVERSAL).times(size(0).scaled(REGEX))),
        "contains_string" => Estimate::of(on.scaled(TRAVERSAL).times(size(0).scaled(TRAVERSAL))),
        "add_list" => Estimate::sized(ONE, size(0).add(size(1))),
        "add_string" | "add_bytes" => {
            let sum = size(0).add(size(1));
            Estimate::sized(sum.scaled(TRAVERSAL), sum)
        }
        "equals" | "not_equals" => Estimate::of(compared(size(0), size(1))),
        other if is_text_order(other) => Estimate::of(compared(size(0), size(1))),
        _ => Estimate::of(ONE),
    }
}

fn is_text_order(overload: &str) -> bool {
    (overload.starts_with("less") || overload.starts_with("greater"))
        && (overload.ends_with("_string") || overload.ends_with("_bytes"))
}

fn compared(left: Range, right: Range) -> Range {
    let max = left.max.min(right.max);
    Range { min: u64::from(max > 0), max }.scaled(TRAVERSAL)
}
