//! Which requests come from this server's own page.

use std::net::SocketAddr;

use http::request::Parts;
use http::{Method, header};

/// A header that the page sends with every request. Another origin could send it only after a preflight request, which
/// is never granted.
pub(crate) const PAGE_HEADER: &str = "x-evenkeel-page";

/// Whether the request names this server as its host. A foreign name that resolves to this address (DNS rebinding) is
/// refused.
pub(crate) fn is_own_host(head: &Parts, address: SocketAddr) -> bool {
    let Some(host) = head.headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let port = address.port();
    [format!("{address}"), format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")]
        .iter()
        .any(|own| own == host)
}

/// Whether a browser reports that the request comes from another origin. Programs other than browsers report nothing.
pub(crate) fn is_foreign(head: &Parts) -> bool {
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let host = text("host").unwrap_or_default();
    let foreign_origin = text("origin").is_some_and(|origin| origin.strip_prefix("http://") != Some(host));
    let foreign_site = text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"));
    // A link on another page may open this one. The browser then sends no session cookie, so the login is shown.
    let opened = head.method == Method::GET && text("sec-fetch-mode") == Some("navigate");
    foreign_origin || (foreign_site && !opened)
}

/// Whether the request has the header that the page sends.
pub(crate) fn is_of_page(head: &Parts) -> bool {
    head.headers.contains_key(PAGE_HEADER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::post("/login");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn other_hosts_and_origins_are_told_apart() {
        let address = "127.0.0.1:9000".parse().unwrap();
        assert!(is_own_host(&head(&[("host", "localhost:9000")]), address));
        for host in ["evil.example:9000", "127.0.0.1", "127.0.0.1:9001", ""] {
            assert!(!is_own_host(&head(&[("host", host)]), address), "{host}");
        }
        let own = [
            ("host", "127.0.0.1:9000"),
            ("origin", "http://127.0.0.1:9000"),
            ("sec-fetch-site", "same-origin"),
        ];
        assert!(!is_foreign(&head(&own)) && !is_foreign(&head(&own[..1])));
        for other in [
            ("origin", "http://127.0.0.1:9001"),
            ("origin", "null"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "cross-site"),
        ] {
            assert!(is_foreign(&head(&[("host", "127.0.0.1:9000"), other])), "{other:?}");
        }
    }
}
