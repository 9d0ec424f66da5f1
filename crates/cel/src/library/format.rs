//! The function `format`, as in `'%s of %d'.format(['disk', 3])`.

use super::convert::{convert, print_double};
use super::strings::BYTES_MAX;
use crate::value::equality::Fuel;
use crate::value::{Fault, List, Map, Outcome, Value};
use evenkeel_scalars::go::quote;

/// The digits after the decimal point, unless the clause sets a precision.
const PRECISION: usize = 6;
/// The largest precision of a clause.
const PRECISION_MAX: usize = 1000;
/// How deep lists and maps are printed.
const DEPTH_MAX: usize = 100;

/// Replaces the clauses of a text by values.
pub(crate) fn format<'a>(text: &str, args: &List<'a>, fuel: &Fuel) -> Outcome<Value<'a>> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        if next >= args.len() {
            return Err(Fault::new(format!("index {next} out of range")));
        }
        let value = args.get(next)?;
        next += 1;
        let (clause, after) = clause(rest)?;
        rest = after;
        out.push_str(&print(&value, &clause, fuel)?);
        if out.len() > BYTES_MAX {
            return Err(Fault::Limit);
        }
    }
    out.push_str(rest);
    Ok(Value::text(out))
}

/// A clause of the text, such as `%.2f`, which a value replaces.
pub(crate) struct Clause {
    /// The letter after the percent sign and the precision.
    pub(crate) letter: char,
    precision: Option<usize>,
}

/// The clauses of a text, in order.
pub(crate) fn clauses(text: &str) -> Outcome<Vec<Clause>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            rest = after;
            continue;
        }
        let (clause, after) = clause(rest)?;
        found.push(clause);
        rest = after;
    }
    Ok(found)
}

/// The types that a clause takes, as its error message lists them.
pub(crate) fn takes(letter: char) -> &'static str {
    match letter {
        's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        _ => "only integers, byte buffers, and strings can be formatted as hex",
    }
}

fn clause(text: &str) -> Outcome<(Clause, &str)> {
    let fail = |why: &str| Fault::new(format!("could not parse formatting clause: {why}"));
    let mut rest = text;
    let mut precision = None;
    if let Some(after) = rest.strip_prefix('.') {
        let end = after.find(|c: char| !c.is_ascii_digit());
        let end = end.ok_or_else(|| {
            fail("error while parsing precision: could not find end of precision specifier")
        })?;
        let digits = &after[..end];
        let number = digits.parse::<usize>().map_err(|_| {
            fail(&format!(
                "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {}: invalid syntax",
                quote(digits)
            ))
        })?;
        if number > PRECISION_MAX {
            return Err(fail(&format!(
                "error while parsing precision: precision {number} exceeds maximum allowed precision {PRECISION_MAX}"
            )));
        }
        precision = Some(number);
        rest = &after[end..];
    }
    let letter = rest.chars().next().ok_or_else(|| Fault::new("unexpected end of string"))?;
    if !"sdfebxXo".contains(letter) {
        return Err(fail(&format!("unrecognized formatting clause \"{letter}\"")));
    }
    Ok((Clause { letter, precision }, &rest[letter.len_utf8()..]))
}

fn wrong(letter: char, value: &Value<'_>) -> Fault {
    let cel_type = value.cel_type();
    Fault::new(format!("error during formatting: {}, was given {}", takes(letter), cel_type.runtime_name()))
}

fn print(value: &Value<'_>, clause: &Clause, fuel: &Fuel) -> Outcome<String> {
    match clause.letter {
        's' => string(value, fuel, 0),
        'd' => decimal(value),
        'f' => fixed(value, clause.precision.unwrap_or(PRECISION)),
        'e' => scientific(value),
        'b' => match value {
            Value::Bool(value) => Ok(i32::from(*value).to_string()),
            _ => radix(value, |number| format!("{number:b}")).ok_or_else(|| wrong('b', value)),
        },
        'o' => radix(value, |number| format!("{number:o}")).ok_or_else(|| wrong('o', value)),
        letter => {
            let lower = hex(value).ok_or_else(|| wrong('x', value))?;
            Ok(if letter == 'X' { lower.to_uppercase() } else { lower })
        }
    }
}

/// Prints an integer in another base, after its sign.
fn radix(value: &Value<'_>, digits: impl Fn(u64) -> String) -> Option<String> {
    match value {
        Value::Int(number) => {
            let sign = if *number < 0 { "-" } else { "" };
            Some(format!("{sign}{}", digits(number.unsigned_abs())))
        }
        Value::Uint(number) => Some(digits(*number)),
        _ => None,
    }
}

fn hex(value: &Value<'_>) -> Option<String> {
    let bytes = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match value {
        Value::String(text) => Some(bytes(text.as_bytes())),
        Value::Bytes(value) => Some(bytes(value)),
        other => radix(other, |number| format!("{number:x}")),
    }
}

fn decimal(value: &Value<'_>) -> Outcome<String> {
    radix(value, |number| number.to_string()).ok_or_else(|| wrong('d', value))
}

/// The number that a clause for doubles takes.
fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// The text of an infinite value or NaN; `None` for a finite number.
fn special(value: f64) -> Option<&'static str> {
    match value {
        value if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

fn fixed(value: &Value<'_>, precision: usize) -> Outcome<String> {
    let number = double(value).ok_or_else(|| wrong('f', value))?;
    if let Some(text) = special(number) {
        return Ok(text.to_owned());
    }
    let text = rounded(number, precision);
    let (sign, unsigned) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let point = if fraction.is_empty() { "" } else { "." };
    Ok(format!("{sign}{grouped}{point}{fraction}"))
}

/// Prints a number with `precision` digits after the point. Halves of its shortest decimal form are rounded to even.
fn rounded(number: f64, precision: usize) -> String {
    let shortest = format!("{number}");
    let (whole, fraction) = shortest.split_once('.').unwrap_or((&shortest, ""));
    let Some(cut) = fraction.get(precision..).filter(|cut| !cut.is_empty()) else {
        return format!("{number:.precision$}");
    };
    let kept: Vec<u8> = whole.bytes().chain(fraction.bytes().take(precision)).collect();
    let half = cut.starts_with('5') && cut[1..].bytes().all(|digit| digit == b'0');
    let odd = kept.last().is_some_and(|digit| digit.is_ascii_digit() && (digit - b'0') % 2 == 1);
    let up = if half { odd } else { cut.as_bytes()[0] >= b'5' };
    let digits = if up { increment(kept) } else { kept };
    let text = String::from_utf8_lossy(&digits);
    let (whole, fraction) = text.split_at(text.len() - precision);
    let point = if precision == 0 { "" } else { "." };
    format!("{whole}{point}{fraction}")
}

/// Adds one to a decimal number, which may have a sign.
fn increment(mut digits: Vec<u8>) -> Vec<u8> {
    for index in (0..digits.len()).rev() {
        match digits[index] {
            b'9' => digits[index] = b'0',
            b'-' => {
                digits.insert(index + 1, b'1');
                return digits;
            }
            _ => {
                digits[index] += 1;
                return digits;
            }
        }
    }
    digits.insert(0, b'1');
    digits
}

fn scientific(value: &Value<'_>) -> Outcome<String> {
    let number = double(value).ok_or_else(|| wrong('e', value))?;
    if let Some(text) = special(number) {
        return Ok(text.to_owned());
    }
    let text = format!("{number:.PRECISION$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("⁻", digits));
    let raised = |digit: char| digit.to_digit(10).and_then(|at| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(at as usize));
    let power: String = format!("{digits:0>2}").chars().filter_map(raised).collect();
    Ok(format!("{mantissa}×10{sign}{power}"))
}

fn string(value: &Value<'_>, fuel: &Fuel, depth: usize) -> Outcome<String> {
    match value {
        Value::Null => Ok("null".to_owned()),
        Value::List(list) => print_list(list, fuel, depth),
        Value::Map(map) => print_map(map, fuel, depth),
        Value::Double(number) => Ok(print_double(*number)),
        Value::Optional(_) | Value::Opaque(_) | Value::Preserved(_) | Value::Failed(_) => {
            Err(wrong('s', value))
        }
        other => match convert("string", other)? {
            Value::String(text) => Ok(text.to_string()),
            _ => Err(Fault::no_overload()),
        },
    }
}

/// Prints a part of a list or map as a CEL literal.
fn part(value: &Value<'_>, fuel: &Fuel, depth: usize) -> Outcome<String> {
    fuel.spend(1)?;
    if depth > DEPTH_MAX {
        return Err(Fault::Limit);
    }
    let text = match value {
        Value::Double(number) => match special(*number) {
            Some(_) => return Ok(quote(&print_double(*number))),
            None => return Ok(format!("{number:.PRECISION$}")),
        },
        Value::Int(_) | Value::Uint(_) => return decimal(value),
        other => string(other, fuel, depth + 1).map_err(|fault| match (fault, other) {
            (Fault::Error(_), Value::Optional(_) | Value::Opaque(_) | Value::Preserved(_)) => {
                Fault::new(format!(
                    "error during formatting: no formatting function for {}",
                    other.cel_type().runtime_name()
                ))
            }
            (fault, _) => fault,
        })?,
    };
    fuel.spend(text.len() as u64 / 16)?;
    Ok(match value {
        Value::String(_) => quote(&text),
        Value::Bytes(_) => format!("b{}", quote(&text)),
        Value::Timestamp(_) => format!("timestamp({})", quote(&text)),
        Value::Duration(_) => format!("duration({})", quote(&text)),
        _ => text,
    })
}

fn print_list(list: &List<'_>, fuel: &Fuel, depth: usize) -> Outcome<String> {
    let parts = list.iter().map(|item| part(&item?, fuel, depth)).collect::<Outcome<Vec<_>>>()?;
    Ok(format!("[{}]", parts.join(", ")))
}

fn print_map(map: &Map<'_>, fuel: &Fuel, depth: usize) -> Outcome<String> {
    let mut parts = Vec::with_capacity(map.len());
    for key in map.keys() {
        let value = map.find(&key)?.ok_or_else(Fault::no_overload)?;
        parts.push((part(&key, fuel, depth)?, part(&value, fuel, depth)?));
    }
    parts.sort();
    let entries: Vec<String> = parts.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", entries.join(", ")))
}
