//! URLs, as Go parses them.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::value::{Fault, Map, Outcome, Value};
use evenkeel_scalars::go::quote;

/// The parts of a URL.
#[derive(Debug, PartialEq)]
pub struct Url {
    text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

/// Parses an absolute URL or an absolute path.
pub(crate) fn parse(text: &str) -> Outcome<Url> {
    split(text).map_err(|problem| {
        Fault::new(format!("URL parse error during conversion from string: parse {}: {problem}", quote(text)))
    })
}

fn split(text: &str) -> Result<Url, String> {
    if text.is_empty() {
        return Err("empty url".to_owned());
    }
    if text.chars().any(|c| c.is_ascii_control()) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let whole = text;
    let text = text.split_once('#').map_or(text, |(before, _)| before);
    let (scheme, rest) = scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            // The rest of the URL is opaque, as in `mailto:someone`.
            return Ok(Url {
                text: whole.into(),
                scheme,
                host: String::new(),
                path: String::new(),
                query: query.into(),
            });
        }
        return Err("invalid URI for request".to_owned());
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(after) if !scheme.is_empty() || !after.starts_with('/') => {
            after.split_at(after.find('/').unwrap_or(after.len()))
        }
        _ => ("", rest),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    check_host(host)?;
    check_escapes(path)?;
    Ok(Url { text: whole.into(), scheme, host: host.into(), path: path.into(), query: query.into() })
}

fn scheme(text: &str) -> Result<(String, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((text[..at].to_ascii_lowercase(), &text[at + 1..])),
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn check_host(host: &str) -> Result<(), String> {
    if let Some(end) = host.rfind(']').filter(|_| host.starts_with('[')) {
        return check_port(&host[end + 1..]);
    }
    if host.starts_with('[') {
        return Err("missing ']' in host".to_owned());
    }
    if let Some(at) = host.rfind(':') {
        check_port(&host[at..])?;
    }
    let bad = |c: char| " <>\"\\^`{|}".contains(c) || c.is_ascii_control();
    match host.chars().find(|c| bad(*c)) {
        Some(c) => Err(format!("invalid character {} in host name", quote(&c.to_string()))),
        None => Ok(()),
    }
}

fn check_port(port: &str) -> Result<(), String> {
    let digits = port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    match port.is_empty() || digits {
        true => Ok(()),
        false => Err(format!("invalid port {} after host", quote(port))),
    }
}

fn check_escapes(path: &str) -> Result<(), String> {
    for (at, _) in path.match_indices('%') {
        let escape = path.get(at..at + 3).unwrap_or(&path[at..]);
        let valid = escape.len() == 3 && escape[1..].bytes().all(|byte| byte.is_ascii_hexdigit());
        if !valid {
            return Err(format!("invalid URL escape {}", quote(escape)));
        }
    }
    Ok(())
}

impl Url {
    pub(crate) fn part<'a>(&self, function: &str) -> Outcome<Value<'a>> {
        Ok(match function {
            "getScheme" => Value::text(self.scheme.as_str()),
            "getHost" => Value::text(self.host.as_str()),
            "getHostname" => Value::text(self.hostname()),
            "getPort" => Value::text(self.port()),
            "getEscapedPath" => Value::text(escaped(&self.path)),
            "getQuery" => self.query_map(),
            _ => return Err(Fault::no_overload()),
        })
    }

    fn hostname(&self) -> &str {
        if let Some(inner) = self.host.strip_prefix('[') {
            return inner.split(']').next().unwrap_or_default();
        }
        self.host.rsplit_once(':').map_or(&self.host, |(name, _)| name)
    }

    fn port(&self) -> &str {
        let after = match self.host.rfind(']') {
            Some(end) => &self.host[end + 1..],
            None => &self.host,
        };
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    fn query_map<'a>(&self) -> Value<'a> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(name), Some(value)) = (unescape(name), unescape(value)) {
                values.entry(name).or_default().push(value);
            }
        }
        let entry = |(name, values): (String, Vec<String>)| {
            let key = Value::text(name);
            key.key().map(|name| (name, (key, Value::texts(values))))
        };
        Value::Map(Map::Owned(Rc::new(values.into_iter().filter_map(entry).collect())))
    }
}

/// Percent-encodes a path.
fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'@'
            | b'%' | b'!' | b'\'' | b'(' | b')' | b'*' | b'[' | b']' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

fn unescape(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let hex =
                    text.get(at + 1..at + 3).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))?;
                out.push(u8::from_str_radix(hex, 16).ok()?);
                at += 2;
            }
            other => out.push(*other),
        }
        at += 1;
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_come_apart() {
        let url = parse("https://user@example.com:8443/a%20b?q=1&q=2#f").unwrap();
        assert_eq!((url.scheme.as_str(), url.hostname(), url.port()), ("https", "example.com", "8443"));
        assert_eq!(url.path, "/a%20b");
        assert_eq!(parse("https://[::1]:80/").unwrap().hostname(), "::1");
        assert_eq!(parse("/path").unwrap().host, "");
        for bad in ["", "x", "https://a:b/", ":x", "https://a/%zz"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
