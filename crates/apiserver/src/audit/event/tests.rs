use super::*;

fn head(uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = http::Request::builder().uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

#[test]
fn the_value_of_an_access_token_is_masked() {
    let shown = |uri: &str| request_uri(&head(uri, &[]));
    assert_eq!(shown("/api/v1/pods"), "/api/v1/pods");
    assert_eq!(shown("/api?limit=1&access_token=abc&x=y"), "/api?limit=1&access_token=REDACTED&x=y");
    assert_eq!(shown("/api?access%5Ftoken=abc"), "/api?access%5Ftoken=REDACTED");
    assert_eq!(shown("/api?access_token"), "/api?access_token");
}

#[test]
fn addresses_of_proxies_come_before_that_of_the_client() {
    let ips = |headers: &[(&str, &str)], remote: &str| {
        source_ips(&head("/", headers).headers, remote.parse().ok()).join(" ")
    };
    assert_eq!(ips(&[], "127.0.0.1"), "127.0.0.1");
    assert_eq!(ips(&[], ""), "");
    assert_eq!(ips(&[("x-forwarded-for", "1.2.3.4, x, ::1")], "127.0.0.1"), "1.2.3.4 ::1 127.0.0.1");
    assert_eq!(ips(&[("x-forwarded-for", "1.2.3.4"), ("x-real-ip", "1.2.3.4")], "1.2.3.4"), "1.2.3.4");
    assert_eq!(ips(&[("x-real-ip", "5.6.7.8")], "1.2.3.4"), "5.6.7.8 1.2.3.4");
}

#[test]
fn a_long_user_agent_is_cut() {
    let agent = "a".repeat(USER_AGENT_MAX + 1);
    let cut = user_agent(&head("/", &[("user-agent", &agent)]).headers);
    assert_eq!(cut, format!("{}...TRUNCATED", &agent[1..]));
    assert_eq!(user_agent(&head("/", &[("user-agent", &agent[1..])]).headers), agent[1..]);
}

#[test]
fn an_event_is_one_line_in_the_form_of_go() {
    let text = |json: &str| String::from_utf8(compact(json.as_bytes())).unwrap();
    assert_eq!(text("{\n \"a\" : [ 1 ,\t2 ] }"), r#"{"a":[1,2]}"#);
    assert_eq!(text(r#"{"a b":" x\" y ","c\\": " "}"#), r#"{"a b":" x\" y ","c\\":" "}"#);
    assert_eq!(text(r#"{"q":"a<b>&c"}"#), r#"{"q":"a\u003cb\u003e\u0026c"}"#);
    assert_eq!(text("\"\u{2028}\u{2029}\u{20a8}é\""), "\"\\u2028\\u2029\u{20a8}é\"");
}
