//! Authentication of requests: by client certificate, or else by bearer token, or else as anonymous.

use std::sync::Arc;

use evenkeel_apiserver::{Body, User};
use evenkeel_schema::certificate_request::Subject;
use http::{HeaderMap, Response, StatusCode, header};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::tokens::Tokens;

/// The group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";

/// The client certificate of a connection.
#[derive(Clone, Debug)]
pub(crate) enum Certificate {
    /// The client sent no certificate.
    None,
    /// The certificate is valid and signed by the cluster's certificate authority, for this user.
    Good(Arc<User>),
    /// The certificate is expired, or signed by another authority.
    Bad,
}

/// The user of a request, or `None` if the credentials are wrong. As in Kubernetes, a valid certificate is enough, even
/// with a wrong token, and a valid token is enough, even with a wrong certificate. `accounts` verifies the tokens of
/// service accounts.
pub(crate) fn identify(
    certificate: &Certificate,
    headers: &HeaderMap,
    tokens: &Tokens,
    accounts: impl FnOnce(&str) -> Option<User>,
) -> Option<Arc<User>> {
    if let Certificate::Good(user) = certificate {
        return Some(user.clone());
    }
    match bearer(headers) {
        Some(token) => {
            tokens.user(token).cloned().map(authenticated).or_else(|| accounts(token)).map(Arc::new)
        }
        None if matches!(certificate, Certificate::Bad) => None,
        None => Some(Arc::new(User::anonymous())),
    }
}

/// The bearer token. Other authorization schemes are ignored.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = text.split_once(' ')?;
    let token = token.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn authenticated(mut user: User) -> User {
    user.groups.push(AUTHENTICATED.to_owned());
    user
}

/// The user in a certificate's subject: its common name, with its organizations as groups. `None` if there is no name.
pub(crate) fn subject(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = Subject::from_der(certificate.subject().as_raw())?;
    let groups = subject.organizations.iter().map(String::as_str);
    (!subject.common_name.is_empty()).then(|| authenticated(User::new(&subject.common_name, groups)))
}

/// The response to wrong credentials.
pub(crate) fn unauthorized() -> Response<Body> {
    let text = concat!(
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
        r#""message":"Unauthorized","reason":"Unauthorized","code":401}"#
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        headers
    }

    #[test]
    fn only_a_bearer_token_is_looked_at() {
        assert_eq!(bearer(&headers("Bearer abc")), Some("abc"));
        assert_eq!(bearer(&headers("bearer abc")), Some("abc"));
        assert_eq!(bearer(&headers("Basic abc")), None);
        assert_eq!(bearer(&headers("Bearer ")), None);
    }

    #[test]
    fn nobody_is_anonymous_and_wrong_credentials_are_nobody() {
        let tokens = Tokens::default();
        let none = identify(&Certificate::None, &HeaderMap::new(), &tokens, |_| None);
        assert_eq!(none, Some(Arc::new(User::anonymous())));
        assert_eq!(identify(&Certificate::None, &headers("Bearer x"), &tokens, |_| None), None);
        assert_eq!(identify(&Certificate::Bad, &HeaderMap::new(), &tokens, |_| None), None);
        let good = Certificate::Good(Arc::new(User::admin()));
        assert_eq!(identify(&good, &headers("Bearer x"), &tokens, |_| None), Some(Arc::new(User::admin())));
    }

    #[test]
    fn a_certificate_names_user_and_groups() {
        let authority = super::super::authority::Authority::new(&evenkeel_env::Env::seeded(1)).unwrap();
        let pair = authority.client("alice", "devs").unwrap();
        let der = rustls::pki_types::pem::PemObject::from_pem_slice(pair.certificate.as_bytes());
        let der: rustls::pki_types::CertificateDer<'_> = der.unwrap();
        let user = subject(&der).unwrap();
        assert_eq!((user.name.as_str(), user.groups), ("alice", vec!["devs".into(), AUTHENTICATED.into()]));
    }
}
