//! IP addresses and CIDR ranges.

use std::fmt;
use std::net::IpAddr;

use crate::value::{Fault, Opaque, Outcome, Value};
use evenkeel_scalars::go::quote;

/// An IP address that has no zone and is not an IPv4 address mapped to IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address(IpAddr);

/// A CIDR range: an address and the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    pub(crate) address: Address,
    bits: u32,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// Prints an address or a CIDR range; `None` for other values.
pub(crate) fn print(opaque: &Opaque) -> Option<String> {
    match opaque {
        Opaque::Ip(address) => Some(address.to_string()),
        Opaque::Cidr(network) => Some(network.to_string()),
        _ => None,
    }
}

impl Address {
    /// How many bytes the address has.
    pub(crate) fn bytes(&self) -> u64 {
        if self.0.is_ipv4() { 4 } else { 16 }
    }

    fn number(&self) -> u128 {
        match self.0 {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        }
    }

    pub(crate) fn property<'a>(&self, function: &str) -> Outcome<Value<'a>> {
        let link_local_unicast = match self.0 {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        let link_local_multicast = match self.0 {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        };
        let broadcast = matches!(self.0, IpAddr::V4(address) if address.is_broadcast());
        Ok(Value::Bool(match function {
            "family" => return Ok(Value::Int(if self.0.is_ipv4() { 4 } else { 6 })),
            "isUnspecified" => self.0.is_unspecified(),
            "isLoopback" => self.0.is_loopback(),
            "isLinkLocalMulticast" => link_local_multicast,
            "isLinkLocalUnicast" => link_local_unicast,
            "isGlobalUnicast" => {
                !(self.0.is_unspecified()
                    || self.0.is_loopback()
                    || self.0.is_multicast()
                    || link_local_unicast
                    || broadcast)
            }
            _ => return Err(Fault::no_overload()),
        }))
    }
}

impl Network {
    /// The prefix of an address, shifted to the right; `None` if the address is of the other family.
    fn prefix(&self, address: &Address) -> Option<u128> {
        let width = if self.address.0.is_ipv4() { 32 } else { 128 };
        let same_family = self.address.0.is_ipv4() == address.0.is_ipv4();
        same_family.then(|| address.number().checked_shr(width - self.bits).unwrap_or(0))
    }

    pub(crate) fn contains(&self, address: &Address) -> bool {
        self.prefix(address).is_some_and(|prefix| Some(prefix) == self.prefix(&self.address))
    }

    /// Whether this range contains all addresses of another one.
    pub(crate) fn covers(&self, other: &Network) -> bool {
        self.bits <= other.bits && self.contains(&other.address)
    }

    pub(crate) fn property<'a>(&self, function: &str) -> Outcome<Value<'a>> {
        Ok(match function {
            "prefixLength" => Value::Int(i64::from(self.bits)),
            "masked" => Value::opaque(Opaque::Cidr(self.masked())),
            _ => return Err(Fault::no_overload()),
        })
    }

    fn masked(&self) -> Network {
        let width = if self.address.0.is_ipv4() { 32 } else { 128 };
        let prefix = self.prefix(&self.address).unwrap_or(0);
        let number = prefix.checked_shl(width - self.bits).unwrap_or(0);
        let address = match self.address.0 {
            IpAddr::V4(_) => IpAddr::V4(u32::try_from(number).unwrap_or(0).into()),
            IpAddr::V6(_) => IpAddr::V6(number.into()),
        };
        Network { address: Address(address), bits: self.bits }
    }
}

/// Parses an address as Go's `netip.ParseAddr` does; the error is Go's.
fn parse(text: &str) -> Result<IpAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let at = |rest: &str, problem: &str| match rest {
        "" => format!("ParseAddr({}): {problem}", quote(text)),
        rest => format!("ParseAddr({}): {problem} (at {})", quote(text), quote(rest)),
    };
    match text.find(['.', ':', '%']).map(|index| text.as_bytes()[index]) {
        None => Err(at("", "unable to parse IP")),
        Some(b'%') => Err(at("", "missing IPv6 address")),
        Some(b'.') => Err(explain_v4(text, &at)),
        _ => match text.split_once('%') {
            Some((_, "")) => Err(at("", "zone must be a non-empty string")),
            Some((address, zone)) if address.parse::<IpAddr>().is_ok() => Err(format!("%{zone}")),
            Some((address, _)) => Err(explain_v6(address, &at)),
            None => Err(explain_v6(text, &at)),
        },
    }
}

/// Says why a text is not an IPv6 address. The groups are read from left to right, as in Go.
fn explain_v6(text: &str, at: &dyn Fn(&str, &str) -> String) -> String {
    const GROUPS: usize = 8;
    let mut rest = text.strip_prefix("::").unwrap_or(text);
    let mut has_ellipsis = rest.len() < text.len();
    let mut groups = 0;
    while groups < GROUPS {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        match (digits, rest.as_bytes().get(digits)) {
            (0, _) => return at(rest, "each colon-separated field must have at least one digit"),
            (5.., _) => return at(rest, "each group must have 4 or less digits"),
            (_, Some(b'.')) if !has_ellipsis && groups != GROUPS - 2 => {
                return at(rest, "embedded IPv4 address must replace the final 2 fields of the address");
            }
            (_, Some(b'.')) if groups > GROUPS - 2 => {
                return at(rest, "too many hex fields to fit an embedded IPv4 at the end of the address");
            }
            (_, Some(b'.')) if rest.parse::<std::net::Ipv4Addr>().is_err() => return explain_v4(rest, at),
            (_, Some(b'.')) => {
                rest = "";
                break;
            }
            _ => groups += 1,
        }
        rest = &rest[digits..];
        rest = match rest.strip_prefix(':') {
            None if rest.is_empty() => break,
            None => return at(rest, "unexpected character, want colon"),
            Some("") => return at(rest, "colon must be followed by more characters"),
            Some(more) => more,
        };
        if let Some(more) = rest.strip_prefix(':') {
            if has_ellipsis {
                return at(rest, "multiple :: in address");
            }
            has_ellipsis = true;
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
    }
    match rest {
        "" if has_ellipsis => at("", "the :: must expand to at least one field of zeros"),
        "" => at("", "address string too short"),
        rest => at(rest, "trailing garbage after address"),
    }
}

fn explain_v4(text: &str, at: &dyn Fn(&str, &str) -> String) -> String {
    let (mut field, mut digits, mut value) = (0, 0, 0_u32);
    for (index, c) in text.char_indices() {
        match c {
            '0'..='9' => {
                if digits == 1 && value == 0 {
                    return at("", "IPv4 field has octet with leading zero");
                }
                value = value * 10 + u32::from(c) - u32::from('0');
                digits += 1;
                if value > 255 {
                    return at("", "IPv4 field has value >255");
                }
            }
            '.' => {
                let last = index + 1 == text.len();
                if digits == 0 || last {
                    return at(&text[index..], "IPv4 field must have at least one digit");
                }
                if field == 3 {
                    return at("", "IPv4 address too long");
                }
                (field, digits, value) = (field + 1, 0, 0);
            }
            _ => return at(&text[index..], "unexpected character"),
        }
    }
    at("", "IPv4 address too short")
}

/// Parses an address that expressions may use.
pub(crate) fn parse_address(text: &str) -> Outcome<Address> {
    match parse(text) {
        Ok(address) => match mapped(&address) {
            false => Ok(Address(address)),
            true => Err(Fault::new(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text)))),
        },
        Err(zone) if zone.starts_with('%') => {
            Err(Fault::new(format!("IP address {} with zone value is not allowed", quote(text))))
        }
        Err(error) => Err(Fault::new(format!(
            "IP Address {} parse error during conversion from string: {error}",
            quote(text)
        ))),
    }
}

fn mapped(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// Parses a CIDR range. Bits behind the prefix may be set.
pub(crate) fn parse_network(text: &str) -> Outcome<Network> {
    const CONTEXT: &str = "network address parse error during conversion from string: ";
    let refuse = |problem: String| {
        Fault::new(format!("{CONTEXT}{CONTEXT}netip.ParsePrefix({}): {problem}", quote(text)))
    };
    let Some((address, bits)) = text.rsplit_once('/') else {
        return Err(refuse("no '/'".to_owned()));
    };
    let address = match parse(address) {
        Ok(address) => address,
        Err(zone) if zone.starts_with('%') => {
            return Err(refuse("IPv6 zones cannot be present in a prefix".to_owned()));
        }
        Err(error) => return Err(refuse(error)),
    };
    let number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    if !number || (bits.len() > 1 && bits.starts_with('0')) {
        return Err(refuse(format!("bad bits after slash: {}", quote(bits))));
    }
    let max = if address.is_ipv4() { 32 } else { 128 };
    match bits.parse::<u32>().ok().filter(|bits| *bits <= max) {
        None => Err(refuse("prefix length out of range".to_owned())),
        Some(_) if mapped(&address) => {
            Err(Fault::new(format!("{CONTEXT}IPv4-mapped IPv6 address {} is not allowed", quote(text))))
        }
        Some(bits) => Ok(Network { address: Address(address), bits }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_and_cover() {
        let net = |text: &str| parse_network(text).unwrap();
        assert!(net("10.0.0.0/8").contains(&parse_address("10.1.2.3").unwrap()));
        assert!(!net("10.0.0.0/8").contains(&parse_address("::1").unwrap()));
        assert!(net("10.0.0.0/8").covers(&net("10.1.0.0/16")));
        assert!(!net("10.1.0.0/16").covers(&net("10.0.0.0/8")));
        assert_eq!(net("192.168.1.7/24").masked().to_string(), "192.168.1.0/24");
        assert_eq!(net("::1/0").masked().to_string(), "::/0");
        assert!(parse_address("::ffff:1.2.3.4").is_err());
        assert!(parse_network("10.0.0.0/33").is_err());
    }

    #[test]
    fn errors_of_addresses_are_those_of_go() {
        let told = |text: &str| {
            parse(text).expect_err(text).replacen(&format!("ParseAddr({}): ", quote(text)), "", 1)
        };
        for (text, error) in [
            ("x", "unable to parse IP"),
            ("%eth0", "missing IPv6 address"),
            ("fe80::1%", "zone must be a non-empty string"),
            ("https://x/y", r#"each colon-separated field must have at least one digit (at "https://x/y")"#),
            ("12345::", r#"each group must have 4 or less digits (at "12345::")"#),
            (
                "1:2:3.4.5.6",
                r#"embedded IPv4 address must replace the final 2 fields of the address (at "3.4.5.6")"#,
            ),
            (
                "::1:2:3:4:5:6:7:1.2.3.4",
                r#"too many hex fields to fit an embedded IPv4 at the end of the address (at "1.2.3.4")"#,
            ),
            ("::1.2.3.400", "IPv4 field has value >255"),
            ("1:2:", r#"colon must be followed by more characters (at ":")"#),
            ("1::2::3", r#"multiple :: in address (at ":3")"#),
            ("1:2:x", r#"each colon-separated field must have at least one digit (at "x")"#),
            ("1:2/64", r#"unexpected character, want colon (at "/64")"#),
            ("1:2:3", "address string too short"),
            ("1:2:3:4:5:6:7:8:9", r#"trailing garbage after address (at "9")"#),
            ("1:2:3:4::5:6:7:8", "the :: must expand to at least one field of zeros"),
        ] {
            assert_eq!(told(text), error, "{text}");
        }
    }
}
