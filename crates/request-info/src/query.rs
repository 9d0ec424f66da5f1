//! The parameters after the question mark of a URI.

use std::borrow::Cow;

use crate::escape::has_valid_escapes;

/// The query parameters of a request, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Reads `a=b&c=d`, the part of a URI after the question mark.
    ///
    /// Like Go's `url.ParseQuery`, it leaves out parameters with malformed escapes or a semicolon.
    ///
    /// ```
    /// use evenkeel_request_info::Query;
    ///
    /// let query = Query::parse("labelSelector=app%3Dweb&limit=%zz&watch");
    /// assert_eq!(query.get("labelSelector"), Some("app=web"));
    /// assert_eq!(query.get("limit"), None);
    /// assert!(query.wants_watch());
    /// ```
    pub fn parse(text: &'a str) -> Self {
        if text.is_empty() {
            return Self::default();
        }
        let valid = |pair: &&str| !pair.contains(';') && has_valid_escapes(pair).is_some();
        Self(text.split('&').filter(valid).flat_map(|pair| form_urlencoded::parse(pair.as_bytes())).collect())
    }

    /// The first value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// The first value of a parameter; empty if the parameter is missing.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// All values of a parameter.
    pub fn all<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'b str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// All parameters with their values, written as a query.
    pub fn encoded(&self) -> String {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }

    /// The first value of a parameter as a boolean: every value but `0` and `false` is true, as Kubernetes reads them.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|text| text != "0" && !text.eq_ignore_ascii_case("false"))
    }

    /// Whether the parameter `watch` turns a list into a watch.
    pub fn wants_watch(&self) -> bool {
        self.flag("watch").unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_go_reads_them() {
        let query = Query::parse("a=1%202&b&c=x+y&a=3&=nameless&d=e=f");
        assert_eq!(query.get("a"), Some("1 2"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1 2", "3"]);
        assert_eq!((query.get("b"), query.get("missing")), (Some(""), None));
        assert_eq!((query.text("c"), query.text("d")), ("x y", "e=f"));
        assert_eq!(query.get(""), Some("nameless"));
    }

    #[test]
    fn parameters_that_go_does_not_read_are_left_out() {
        let query = Query::parse("a=%zz&b=1;c=2&%+5=1&d=4;&&x=%+5&e=5");
        assert_eq!(query.0, [("e".into(), "5".into())]);
    }

    #[test]
    fn booleans_are_read_as_kubernetes_reads_them() {
        for (query, wanted) in [
            ("watch", true),
            ("watch=", true),
            ("watch=1", true),
            ("watch=TRUE", true),
            ("watch=no", true),
            ("watch=0", false),
            ("watch=False", false),
            ("watch=false&watch=true", false),
            ("watching=true", false),
            ("x=watch=true", false),
            ("wat%63h=tr%75e", true),
            ("", false),
        ] {
            assert_eq!(Query::parse(query).wants_watch(), wanted, "{query}");
        }
    }
}
