use super::*;
use crate::percent_decode;

fn parse(path: &str) -> ApiPath<'static> {
    ApiPath::parse_cow(percent_decode(path).unwrap()).into_owned()
}

fn resource(path: &str) -> ResourcePath<'static> {
    parse(path).into_resource().unwrap_or_else(|| panic!("{path} leads to no resource"))
}

/// Compares the parts of a path: group, version, namespace, resource, name, subresource, then verb and defect.
fn check(path: &str, expected: &str) {
    let it = resource(path);
    let parts = [&it.group, &it.version, &it.namespace, &it.resource, &it.name, &it.subresource];
    let mut parts = parts.map(|part| if part.is_empty() { "-" } else { part }).to_vec();
    parts.extend(it.special_verb.map(SpecialVerb::as_str));
    parts.extend(it.defect.map(|defect| match defect {
        Defect::OutsideApi => "OutsideApi",
        Defect::Segments => "Segments",
        Defect::Unnamed => "Unnamed",
    }));
    assert_eq!(parts.join(" "), expected, "{path}");
}

#[test]
fn paths_are_taken_apart() {
    check("/api/v1/pods", "- v1 - pods - -");
    check("/api/v1/namespaces/a/pods/p/log", "- v1 a pods p log");
    check("/apis/apps/v1/namespaces/a/deployments/", "apps v1 a deployments - -");
    check("/apis/batch/v1/jobs/j/status", "batch v1 - jobs j status");
    check("/api/v1/namespaces/a/pods/p/log/more", "- v1 a pods p log Segments");
    check("/api/v1/namespaces/a/pods/p/proxy/more/and/more", "- v1 a pods p proxy");
}

#[test]
fn other_paths_lead_to_no_resource() {
    let others =
        ["", "/", "/healthz", "/api", "/api/v1/", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/apps/v1/"];
    for path in others.into_iter().chain(["/version", "/not-api/v1/pods", "/openapi/v3/apis/apps/v1", "pods"])
    {
        assert_eq!(parse(path), ApiPath::NonResource, "{path}");
    }
}

#[test]
fn a_namespace_is_an_object_and_has_subresources() {
    check("/api/v1/namespaces", "- v1 - namespaces - -");
    check("/api/v1/namespaces/a", "- v1 - namespaces a -");
    check("/api/v1/namespaces/a/status", "- v1 - namespaces a status");
    check("/api/v1/namespaces/a/finalize", "- v1 - namespaces a finalize");
    check("/api/v1/namespaces/a/namespaces/b", "- v1 a namespaces b -");
    check("/api/v1/namespaces/a/pods/status", "- v1 a pods status -");
    for (path, wanted) in [
        ("/api/v1/namespaces", ""),
        ("/api/v1/namespaces/a", "a"),
        ("/api/v1/namespaces/a/status", "a"),
        ("/api/v1/namespaces/a/pods", "a"),
        ("/api/v1/namespaces/a/namespaces/b", "a"),
        ("/api/v1/namespaces//namespaces/b", ""),
        ("/api/v1/nodes/n", ""),
    ] {
        assert_eq!(resource(path).request_namespace(), wanted, "{path}");
    }
    assert!(resource("/api/v1/namespaces/a/pods").is_in_namespace());
    assert!(!resource("/api/v1/namespaces/a/status").is_in_namespace());
}

#[test]
fn special_verbs_stand_before_the_resource() {
    check("/api/v1/watch/namespaces/a/pods", "- v1 a pods - - watch");
    check("/api/v1/watch/pods/p/status", "- v1 - pods p status watch");
    check("/api/v1/proxy/nodes/n/metrics", "- v1 - nodes n - proxy");
    check("/apis/g/v1/watch/watch", "g v1 - watch - - watch");
    assert_eq!(parse("/api/v1/watch"), ApiPath::VerbOnly);
    assert_eq!(parse("/apis/g/v1/proxy/"), ApiPath::VerbOnly);
    check("/api/watch/pods", "- watch - pods - -");
}

#[test]
fn an_escaped_slash_divides_like_a_plain_one() {
    check("/api/v1/nodes/a%2Fb", "- v1 - nodes a b");
    check("/api/v1/namespaces/a%2fsecrets/s", "- v1 a secrets s -");
    check("/api/v1%2Fpods", "- v1 - pods - -");
    check("/api/v1/nodes/a%252Fb", "- v1 - nodes a%2Fb -");
}

#[test]
fn slashes_at_the_ends_do_not_count_and_empty_segments_are_defects() {
    check("//api/v1/pods//", "- v1 - pods - - OutsideApi");
    check("/apis//v1/pods", "- v1 - pods - - OutsideApi");
    check("/api//v1/pods", "- - - v1 pods - Segments");
    check("/api/v1/namespaces//pods", "- v1 - pods - - Segments");
    check("/api/v1/namespaces//status", "- v1 - namespaces - status Segments");
    check("/api/v1/namespaces/a/pods/p//x", "- v1 a pods p - Segments");
    check("/api/v1/namespaces/a/pods//log", "- v1 a pods - log Unnamed");
}

#[test]
fn a_plain_path_is_borrowed() {
    let ApiPath::Resource(path) = ApiPath::parse("/apis/apps/v1/namespaces/a/deployments/d/status") else {
        panic!("the path leads to a resource")
    };
    for part in [path.group, path.version, path.namespace, path.resource, path.name, path.subresource] {
        assert!(matches!(part, Cow::Borrowed(_)), "{part}");
    }
}

#[test]
fn a_path_is_written_again() {
    let object = |path| resource(path).object_path();
    let check = |path, wanted: Option<&str>| assert_eq!(object(path).as_deref(), wanted, "{path}");
    check("/api/v1/namespaces/a/pods/x", Some("/api/v1/namespaces/a/pods/x"));
    check("/api/v1/namespaces/a/pods/x/status", Some("/api/v1/namespaces/a/pods/x"));
    check("/api/v1/namespaces/a/pods", None);
    check("/api/v1/namespaces/a/finalize", Some("/api/v1/namespaces/a"));
    check("/api/v1/namespaces", None);
    check("/apis/apps/v1/namespaces/a/deployments/x/scale", Some("/apis/apps/v1/namespaces/a/deployments/x"));
    check("/apis/x.io/v1/crs/x", Some("/apis/x.io/v1/crs/x"));
    check("/apis/g/v1/roles/system:a%20b", Some("/apis/g/v1/roles/system:a%20b"));
    assert_eq!(resource("/api/v1/namespaces/a/pods/x/log").collection_path(), "/api/v1/namespaces/a/pods");
    assert_eq!(resource("/api/v1/namespaces/a/pods/x/log").to_string(), "pods/x/log");
    assert_eq!(resource("/api/v1/namespaces/a/pods").to_string(), "pods");
}

/// The parts of a path by the steps of Kubernetes' `RequestInfoFactory`, on a list of segments: namespace, resource,
/// name and subresource; `None` for a path to no resource.
fn by_the_book(path: &str) -> Option<[String; 4]> {
    let trimmed = path.trim_matches('/');
    let mut parts: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
    let before_resource = match *parts.first()? {
        "api" => 2,
        "apis" => 3,
        _ => return None,
    };
    if parts.len() <= before_resource {
        return None;
    }
    parts.drain(..before_resource);
    let special = matches!(parts[0], "watch" | "proxy").then(|| parts.remove(0));
    let mut namespace = "";
    if *parts.first()? == "namespaces" && parts.len() > 1 {
        namespace = parts[1];
        if parts.len() > 2 && !["status", "finalize"].contains(&parts[2]) {
            parts.drain(..2);
        }
    }
    let part = |at: usize| parts.get(at).copied().unwrap_or_default();
    let subresource = if special == Some("proxy") { "" } else { part(2) };
    Some([namespace, part(0), part(1), subresource].map(str::to_owned))
}

#[test]
fn every_short_path_is_read_as_kubernetes_reads_it() {
    const SEGMENTS: [&str; 8] = ["", "a", "api", "watch", "proxy", "namespaces", "status", "pods"];
    for root in ["/api/v1", "/apis/g/v1", "/apis", ""] {
        for number in 0..SEGMENTS.len().pow(5) {
            let mut path = root.to_owned();
            let mut rest = number;
            // Each digit of the number, in base eight, chooses a segment.
            while rest > 0 {
                path = path + "/" + SEGMENTS[rest % SEGMENTS.len()];
                rest /= SEGMENTS.len();
            }
            let found = ApiPath::parse(&path).into_resource().map(|it| {
                [it.request_namespace(), &it.resource, &it.name, &it.subresource].map(str::to_owned)
            });
            assert_eq!(found, by_the_book(&path), "{path}");
        }
    }
}
