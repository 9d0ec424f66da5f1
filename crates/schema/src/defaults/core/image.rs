//! Parses image references, to default the pull policy.

/// The default pull policy: `Always` if the image's tag is `latest`, or if it has neither tag nor digest.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if is_latest(image) { "Always" } else { "IfNotPresent" }
}

/// Whether a reference is well-formed and denotes the tag `latest`.
fn is_latest(image: &str) -> bool {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let last_segment = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match rest[last_segment..].find(':') {
        Some(colon) => (&rest[..last_segment + colon], Some(&rest[last_segment + colon + 1..])),
        None => (rest, None),
    };
    let well_formed = is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    match (well_formed, tag, digest) {
        (false, ..) => false,
        (true, Some(tag), _) => tag == "latest",
        (true, None, digest) => digest.is_none(),
    }
}

fn is_name(name: &str) -> bool {
    // Kubernetes does not take a name that looks like an image id for a repository.
    if name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return false;
    }
    let path = match name.split_once('/') {
        Some((first, path)) if is_domain_like(first) => match is_domain(first) {
            true => path,
            false => return false,
        },
        _ => name,
    };
    !path.is_empty() && path.len() <= 255 && path.split('/').all(is_component)
}

fn is_domain_like(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_domain(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port_fits =
        port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let label = |label: &str| {
        let edges = !label.starts_with('-') && !label.ends_with('-');
        edges && !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host_fits = match address {
        Some(address) => address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':'),
        None => host.split('.').all(label),
    };
    port_fits && host_fits
}

/// Whether a path component consists of lower-case letters and digits, with single separators (`.`, `_`, `__`, dashes)
/// between them.
fn is_component(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    if !bytes.first().copied().is_some_and(alphanumeric) || !bytes.last().copied().is_some_and(alphanumeric) {
        return false;
    }
    text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()).all(|separator| {
        matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
    })
}

fn is_tag(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let first = text.bytes().next().is_some_and(word);
    first && text.len() <= 128 && text.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    let part = |part: &str| {
        let mut bytes = part.bytes();
        bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
            && bytes.all(|byte| byte.is_ascii_alphanumeric())
    };
    algorithm.split(['-', '_', '+', '.']).all(part)
        && hex.len() >= 32
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_is_always_pulled() {
        let digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        for image in
            ["nginx", "nginx:latest", "a/b", "r.example.com:5000/a/b", "localhost/a", "a__b/c-d", "R/a"]
        {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        let pinned = format!("nginx@{digest}");
        for image in
            ["nginx:1.27", &pinned, "NGINX", "", "a b", "a//b", "r.example.com:5000/a:1", "-a", "a:b c"]
        {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
        assert_eq!(pull_policy(&format!("nginx:latest@{digest}")), "Always");
    }
}
