//! OpenID Connect discovery, by which others verify service account tokens: the issuer's configuration and
//! public keys.

use evenkeel_schema::json::{Value, json};
use evenkeel_store::Store;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Response};

use super::{Authentication, ISSUER};
use crate::body::Body;
use crate::registry::storage_prefix;
use crate::request::Request;
use crate::status::{Details, Result, Status};
use crate::storage;
use crate::{Header, respond};

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";
/// How long clients may cache both documents, as in Kubernetes.
const MAX_AGE: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// Answers a request for the issuer's configuration or keys; `None` for any other path.
pub(crate) fn answer(
    authentication: &Authentication,
    store: &Store<Header>,
    request: &Request<'_>,
) -> Option<Result<Response<Body>>> {
    let (document, content_type) = match &*request.path {
        CONFIGURATION => (configuration(authentication, store), "application/json"),
        KEYS => (json!({"keys": authentication.key().public()}), "application/jwk-set+json"),
        _ => return None,
    };
    if request.method != Method::GET {
        return Some(Err(Status::method_not_allowed()));
    }
    let accept = request.header("accept");
    if !accepts(accept, content_type) {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {content_type}");
        return Some(Err(Status::not_acceptable(message).with(Details::default())));
    }
    let mut response = respond::json(200, document.to_string());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, MAX_AGE);
    Some(Ok(response))
}

/// Whether an `Accept` header allows a media type. No header allows every type.
fn accepts(header: &str, media_type: &str) -> bool {
    let mut types = header.split(',').map(|it| it.split(';').next().unwrap_or_default().trim());
    header.is_empty() || types.any(|it| it == "*/*" || it == media_type)
}

fn configuration(authentication: &Authentication, store: &Store<Header>) -> Value {
    json!({
        "issuer": ISSUER,
        "jwks_uri": format!("https://{}{KEYS}", address(store)),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [authentication.key().algorithm()],
    })
}

/// The API server's address, from the Endpoints `default/kubernetes`.
fn address(store: &Store<Header>) -> String {
    let entry = store.get(&format!("{}default/kubernetes", storage_prefix("", "endpoints")));
    let endpoints: Value = entry.and_then(|it| storage::read_or_skip(&it)).unwrap_or_default();
    let subset = &endpoints["subsets"][0];
    let ip = subset["addresses"][0]["ip"].as_str().unwrap_or("kubernetes.default.svc");
    let ip = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    format!("{ip}:{}", subset["ports"][0]["port"].as_u64().unwrap_or(443))
}
