//! The OpenAPI formats of strings that Kubernetes validates in custom resources; it ignores all others.

use std::net::IpAddr;

use crate::go_regex::{self, is_match};
use crate::names;
use crate::time::parse_duration;

const HOSTNAME: &str = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
const UUID: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const UUID3: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const UUID4: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
const UUID5: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
const BASE64: &str = r"^(?:[A-Za-z0-9+\/]{4})*(?:[A-Za-z0-9+\/]{2}==|[A-Za-z0-9+\/]{3}=|[A-Za-z0-9+\/]{4})$";
const CLOCK: &str = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
const HEX_COLOR: &str = "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
const RGB_COLOR: &str = r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$";
const CREDIT_CARD: &str = r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}|6[27][0-9]{14})$";
const SSN: &str = r"^\d{3}[- ]?\d{2}[- ]?\d{4}$";
const DURATION_PARTS: &str = r"(\d+)\s*([A-Za-zµ]+)";

/// Whether Kubernetes validates the format. Dashes in its name do not count.
pub fn is_known(format: &str) -> bool {
    check_of(format).is_some()
}

/// Whether a string has the format; true if the format is unknown.
pub fn matches(format: &str, text: &str) -> bool {
    check_of(format).is_none_or(|check| check(text))
}

fn check_of(format: &str) -> Option<fn(&str) -> bool> {
    Some(match format.replace('-', "").as_str() {
        "bsonobjectid" => |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "uri" => is_uri,
        "email" => is_email,
        "hostname" => is_hostname,
        "ipv4" => |text| parse_ip(text).is_some() && text.contains('.'),
        "ipv6" => |text| parse_ip(text).is_some() && text.contains(':'),
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => |text| is_match(UUID, text),
        "uuid3" => |text| is_match(UUID3, text),
        "uuid4" => |text| is_match(UUID4, text),
        "uuid5" => |text| is_match(UUID5, text),
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |text| text.len() == 11 && is_match(SSN, text),
        "hexcolor" => |text| is_match(HEX_COLOR, text),
        "rgbcolor" => |text| is_match(RGB_COLOR, text),
        "byte" => |text| is_match(BASE64, text),
        "password" => |_| true,
        "date" => is_date,
        "duration" => |text| read_duration(text).is_some(),
        "datetime" => is_date_time,
        "k8sshortname" => |text| text.len() <= names::LABEL_MAX && names::dns1123_label(text).is_empty(),
        "k8slongname" => |text| names::dns1123_subdomain(text).is_empty(),
        _ => return None,
    })
}

/// Parses an IP address. The parts of an IPv4 address may have leading zeros.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part =
            parts.next().filter(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| IpAddr::from(octets))
}

/// Whether a string is a CIDR range: an address and the length of a prefix.
pub fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let max = match parse_ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    !length.is_empty()
        && length.len() <= 3
        && length.bytes().all(|byte| byte.is_ascii_digit())
        && length.parse::<u32>().is_ok_and(|length| length <= max)
}

fn is_mac(text: &str) -> bool {
    let hex =
        |part: &str, digits: usize| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = |separator: char, digits: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| hex(part, digits))
    };
    parts(':', 2, &[6, 8, 20]) || parts('-', 2, &[6, 8, 20]) || parts('.', 4, &[3, 4, 10])
}

fn is_hostname(text: &str) -> bool {
    is_match(HOSTNAME, text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63)
}

/// Whether a string is a URI as in the first line of an HTTP request: absolute, or a path.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    let scheme_end = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')));
    let scheme = scheme_end
        .filter(|end| text[*end..].starts_with(':') && text.starts_with(|c: char| c.is_ascii_alphabetic()));
    let rest = match scheme {
        Some(end) => &text[end + 1..],
        None if text.starts_with('/') => text,
        None => return false,
    };
    let rest = rest.split('?').next().unwrap_or_default();
    match rest.strip_prefix("//") {
        Some(authority) if scheme.is_some() => {
            let host = authority.split('/').next().unwrap_or_default();
            let port_fits = match host.rsplit_once(':') {
                Some((_, port)) if !port.contains(']') => port.bytes().all(|byte| byte.is_ascii_digit()),
                _ => true,
            };
            port_fits
                && !host.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}'])
                && has_valid_escapes(rest)
        }
        _ => has_valid_escapes(rest),
    }
}

fn has_valid_escapes(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |index: usize| bytes.get(index).is_some_and(u8::is_ascii_hexdigit);
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%').all(|(at, _)| digit(at + 1) && digit(at + 2))
}

/// Whether a string is an address as in the header of an email, with or without a display name.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match (text.rfind('<'), text.ends_with('>')) {
        (Some(open), true) => &text[open + 1..text.len() - 1],
        (None, false) => text,
        _ => return false,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii();
    let dotted = |text: &str| text.split('.').all(|part| !part.is_empty() && part.chars().all(atom));
    let quoted = local.len() >= 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.starts_with('[') && domain.ends_with(']');
    (quoted || dotted(local)) && (literal || dotted(domain))
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let digits =
        |part: &str, count: usize| part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit());
    if !(digits(year, 4) && digits(month, 2) && digits(day, 2)) {
        return false;
    }
    let number = |part: &str| part.parse::<i16>().unwrap_or_default();
    let narrow = |part: &str| i8::try_from(number(part)).unwrap_or_default();
    jiff::civil::Date::new(number(year), narrow(month), narrow(day)).is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(clock)) = (parts.next(), parts.next()) else { return false };
    if text.len() < 4 || !is_date(date) {
        return false;
    }
    let Some(regex) = go_regex::compiled(CLOCK) else { return false };
    regex.captures(clock).is_some_and(|found| &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59")
}

/// Reads a string of the format `duration`, in nanoseconds: Go's format, or numbers with units in words, such as
/// `3 days`. Like Kubernetes, this ignores everything that is not a number with a known unit, and lets the sum overflow.
pub fn read_duration(text: &str) -> Option<i64> {
    if let Some(nanos) = parse_duration(text) {
        return Some(nanos);
    }
    let mut total = None;
    for part in go_regex::compiled(DURATION_PARTS)?.captures_iter(text) {
        let number: i64 = part[1].parse().ok()?;
        if let Some(unit) = unit_nanos(&part[2].to_lowercase()) {
            total = Some(total.unwrap_or(0_i64).wrapping_add(number.wrapping_mul(unit)));
        }
    }
    total
}

/// The units of durations in words: the abbreviations, the beginning of the word, and the number of nanoseconds.
const UNITS: [(&[&str], &str, i64); 8] = [
    (&["ns"], "nano", 1),
    (&["us", "µs"], "micro", 1_000),
    (&["ms"], "milli", 1_000_000),
    (&["s"], "sec", 1_000_000_000),
    (&["m"], "min", 60_000_000_000),
    (&["h", "hr"], "hour", 3_600_000_000_000),
    (&["d"], "day", 86_400_000_000_000),
    (&["w", "wk"], "week", 604_800_000_000_000),
];

fn unit_nanos(unit: &str) -> Option<i64> {
    let is_it = |(short, word, _): &&(&[&str], &str, i64)| short.contains(&unit) || unit.starts_with(word);
    UNITS.iter().find(is_it).map(|(.., nanos)| *nanos)
}

fn digits_of(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits_of(text);
    let Some((body, check)) = digits.split_at_checked(9) else { return false };
    if digits.len() != 10 || !body.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let value = |byte: u8| u32::from(byte - b'0');
    let check = match check.as_bytes() {
        [b'X'] => 10,
        [digit] if digit.is_ascii_digit() => value(*digit),
        _ => return false,
    };
    let sum: u32 = body.bytes().zip(1..).map(|(byte, weight)| weight * value(byte)).sum();
    (sum + 10 * check).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits_of(text);
    if digits.len() != 13 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let weighted =
        digits.bytes().enumerate().map(|(at, byte)| u32::from(byte - b'0') * if at % 2 == 0 { 1 } else { 3 });
    weighted.sum::<u32>().is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !is_match(CREDIT_CARD, &digits) {
        return false;
    }
    let doubled = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let sum: u32 = digits
        .bytes()
        .rev()
        .map(|byte| u32::from(byte - b'0'))
        .enumerate()
        .map(|(at, digit)| if at % 2 == 1 { doubled(digit) } else { digit })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Validation and CEL once read these texts by different rules.
    #[test]
    fn durations_are_sums_of_numbers_with_units() {
        let day = 86_400_000_000_000;
        for (text, nanos) in [
            ("1h30m", 5_400_000_000_000),
            ("-2s", -2_000_000_000),
            ("3 days", 3 * day),
            ("1 Week and 2d", 9 * day),
            ("2 seconds, 5 MILLIS", 2_005_000_000),
            ("4 x 1 nanosecond", 1),
            ("-1 d", day),
        ] {
            assert_eq!(read_duration(text), Some(nanos), "{text}");
        }
        for text in ["", "soon", "3 x", "3", "days", "99999999999999999999 days 1 s"] {
            assert_eq!(read_duration(text), None, "{text}");
        }
    }

    #[test]
    fn formats_take_and_refuse() {
        for (format, good, bad) in [
            ("date-time", "2020-02-03T04:05:06Z", "2020-02-03 04:05"),
            ("duration", "1h30m", "soon"),
            ("duration", "3 days", "3 x"),
            ("email", "a@example.com", "nobody"),
            ("ipv4", "1.2.3.4", "1.2.3"),
            ("ipv4", "010.1.1.1", "::1"),
            ("ipv6", "::1", "1.2.3.4"),
            ("uuid", "0b1a5c3e-0000-4000-8000-000000000000", "xyz"),
            ("byte", "aGk=", "!!"),
            ("date", "2020-02-29", "2020-13-01"),
            ("cidr", "10.0.0.0/8", "10.0.0.0"),
            ("uri", "https://example.com/x?y", "no uri"),
            ("hostname", "a.example.com", "-a"),
            ("mac", "00:00:5e:00:53:01", "00:00"),
            ("isbn10", "0321751043", "0321751044"),
            ("isbn13", "978-0321751041", "978-0321751042"),
            ("hexcolor", "#FFFFFF", "#GG0000"),
            ("rgbcolor", "rgb(1,2,3)", "rgb(1,2)"),
            ("ssn", "111-22-3333", "111"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("k8s-short-name", "a-b", "a.b"),
        ] {
            assert!(is_known(format) && matches(format, good), "{format} {good}");
            assert!(!matches(format, bad), "{format} {bad}");
        }
        assert!(!is_known("regex") && matches("regex", "("));
    }
}
