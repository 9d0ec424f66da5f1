//! A JSON scanner that words syntax errors as Go does and finds the paths of duplicate keys.
//!
//! It runs only if a body was refused or has duplicate keys, so it need not be fast.

/// The deepest nesting that the scanner accepts. Go allows 10,000 levels, but recursion that deep would
/// overflow the stack of a worker thread. The JSON parser allows 128, and no Kubernetes kind nests half as
/// deep.
const DEPTH_MAX: usize = 127;

/// Returns the syntax error that Go would report; `None` if the text is well-formed.
pub(super) fn explain(body: &[u8]) -> Option<String> {
    let mut scan = Scan { body, at: 0, path: Vec::new(), repeats: None };
    scan.document().err()
}

/// Adds `duplicate field "path"` for every duplicate key of an object.
pub(super) fn repeated_keys(body: &[u8], out: &mut Vec<String>) {
    let mut scan = Scan { body, at: 0, path: Vec::new(), repeats: Some(Vec::new()) };
    let _ = scan.document();
    for path in scan.repeats.unwrap_or_default() {
        let text = format!("duplicate field {}", crate::status::quote(&path));
        if !out.contains(&text) {
            out.push(text);
        }
    }
}

struct Scan<'a> {
    body: &'a [u8],
    at: usize,
    /// The path of the current position: `a`, `b`, `[0]`.
    path: Vec<String>,
    repeats: Option<Vec<String>>,
}

type Scanned = Result<(), String>;

impl Scan<'_> {
    fn document(&mut self) -> Scanned {
        self.value(0)?;
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("after top-level value")),
        }
    }

    fn peek(&mut self) -> Option<u8> {
        while self.body.get(self.at).is_some_and(|it| matches!(it, b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.body.get(self.at).copied()
    }

    fn unexpected(&self, context: &str) -> String {
        match self.body.get(self.at) {
            None => "unexpected end of JSON input".to_owned(),
            Some(&byte) => format!("invalid character {} {context}", quote_byte(byte)),
        }
    }

    fn value(&mut self, depth: usize) -> Scanned {
        if depth > DEPTH_MAX {
            return Err("exceeded max depth".to_owned());
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn object(&mut self, depth: usize) -> Scanned {
        self.at += 1;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let mut keys: Vec<String> = Vec::new();
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            self.path.push(if depth == 0 { key.clone() } else { format!(".{key}") });
            if keys.contains(&key) {
                let path = self.path.concat();
                self.repeats.iter_mut().for_each(|it| it.push(path.clone()));
            }
            keys.push(key);
            self.value(depth + 1)?;
            self.path.pop();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Scanned {
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        for index in 0.. {
            self.path.push(format!("[{index}]"));
            self.value(depth + 1)?;
            self.path.pop();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.unexpected("after array element")),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<String, String> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.body.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0..0x20) => return Err(self.unexpected("in string literal")),
                Some(_) => self.at += 1,
                None => return Err(self.unexpected("")),
            }
        }
        self.at += 1;
        let text = &self.body[start..self.at];
        Ok(serde_json::from_slice(text).unwrap_or_else(|_| String::from_utf8_lossy(text).into_owned()))
    }

    fn escape(&mut self) -> Scanned {
        self.at += 1;
        match self.body.get(self.at) {
            Some(b'u') => {
                for _ in 0..4 {
                    self.at += 1;
                    if !self.body.get(self.at).is_some_and(u8::is_ascii_hexdigit) {
                        return Err(self.unexpected("in \\u hexadecimal character escape"));
                    }
                }
            }
            Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => {}
            _ => return Err(self.unexpected("in string escape code")),
        }
        self.at += 1;
        Ok(())
    }

    fn digits(&mut self, context: &str) -> Scanned {
        if !self.body.get(self.at).is_some_and(u8::is_ascii_digit) {
            return Err(self.unexpected(context));
        }
        while self.body.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Scanned {
        if self.body[self.at] == b'-' {
            self.at += 1;
        }
        if self.body.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.body.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.body.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.body.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn literal(&mut self, word: &'static [u8]) -> Scanned {
        for (index, expected) in word.iter().enumerate() {
            if self.body.get(self.at) != Some(expected) {
                let name = String::from_utf8_lossy(word);
                return Err(
                    self.unexpected(&format!("in literal {name} (expecting '{}')", char::from(word[index])))
                );
            }
            self.at += 1;
        }
        Ok(())
    }
}

/// Quotes a byte as Go's scanner does.
fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\n' => "'\\n'".to_owned(),
        b'\r' => "'\\r'".to_owned(),
        b'\t' => "'\\t'".to_owned(),
        b'\\' => "'\\\\'".to_owned(),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0x9f => format!("'\\u00{byte:02x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &str) {
        assert_eq!(explain(body.as_bytes()).unwrap_or_default(), expected, "{body}");
    }

    #[test]
    fn refusals_are_worded_as_in_go() {
        check("hello", "invalid character 'h' looking for beginning of value");
        check("{\"a\": ", "unexpected end of JSON input");
        check("{\"a\" 1}", "invalid character '1' after object key");
        check("[1 2]", "invalid character '2' after array element");
        check("{} x", "invalid character 'x' after top-level value");
        check("this", "invalid character 'h' in literal true (expecting 'r')");
        check("{\"a\":[1,{\"b\":null}]}", "");
    }

    #[test]
    fn repeats_have_their_path() {
        let mut out = Vec::new();
        repeated_keys(br#"{"a":{"b":[{"c":1,"c":2}]},"a":1}"#, &mut out);
        assert_eq!(out, ["duplicate field \"a.b[0].c\"", "duplicate field \"a\""]);
    }
}
