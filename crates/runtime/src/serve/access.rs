//! Authorization of readers, like controller-runtime's `WithAuthenticationAndAuthorization`: the API server says whose
//! token a request carries (TokenReview), and whether that user may read the path (SubjectAccessReview).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::text;
use crate::error::chain;

/// How long the result of a TokenReview is cached: controller-runtime's value.
const TOKEN_TTL: Duration = Duration::from_secs(60);

/// How long a permission and a refusal are cached: controller-runtime's values.
const ALLOWED_TTL: Duration = Duration::from_secs(5 * 60);
const DENIED_TTL: Duration = Duration::from_secs(30);

/// How long the API server may take to answer, including the wait for a slot: controller-runtime's value.
const REVIEW_WITHIN: Duration = Duration::from_secs(10);

/// How many reviews may be in progress at once, so that unauthenticated clients cannot flood the API server through
/// this process.
const REVIEWS_MAX: usize = 10;

/// How many results are cached. There are few scrapers, and unauthenticated clients must not fill the memory.
const REMEMBERED_MAX: usize = 1000;

/// The largest review whose result is cached: kube-apiserver's limit for its authorization webhook.
const QUESTION_BYTES_MAX: usize = 10_000;

/// Asks the API server who may read a page, and caches the results. Clones share the cache.
#[derive(Clone)]
pub(super) struct Access {
    client: Client,
    reviews: Arc<Semaphore>,
    /// The user of a token, or `None` if the token is not valid.
    users: Arc<Remembered<Option<UserInfo>>>,
    /// Whether a user may read a path, by the review's spec as JSON.
    permissions: Arc<Remembered<bool>>,
}

/// The response for a reader who may not see the page.
type Refusal = Box<Response<Bytes>>;

impl Access {
    /// Uses this client, whose account needs permission to create TokenReviews and SubjectAccessReviews.
    pub(super) fn new(client: Client) -> Self {
        let reviews = Arc::new(Semaphore::new(REVIEWS_MAX));
        Self { client, reviews, users: Arc::default(), permissions: Arc::default() }
    }

    /// Checks whether the sender of this request may see the page. Otherwise returns the response that refuses it.
    pub(super) async fn check(&self, head: &Parts) -> Result<(), Refusal> {
        let user = match bearer_token(head) {
            Some(token) => self.user(token).await?,
            None => None,
        };
        let Some(user) = user else {
            let mut refusal = text(StatusCode::UNAUTHORIZED, "Unauthorized\n");
            let scheme = header::HeaderValue::from_static("Bearer");
            refusal.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            return Err(Box::new(refusal));
        };
        let name = user.username.clone().unwrap_or_default();
        match self.may(user, head).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(refused(StatusCode::FORBIDDEN, &format!("Authorization denied for user {name}")))
            }
            Err(error) => {
                warn("SubjectAccessReview", "subjectaccessreviews.authorization.k8s.io", &error);
                let why = format!("Authorization for user {name} failed");
                Err(refused(StatusCode::INTERNAL_SERVER_ERROR, &why))
            }
        }
    }

    /// Returns the user of this token, or `None` if the token is not valid.
    async fn user(&self, token: &str) -> Result<Option<UserInfo>, Refusal> {
        if let Some(user) = self.users.get(token) {
            return Ok(user);
        }
        // The field is an `Option` in k8s-openapi's types for Kubernetes before 1.36.
        #[allow(clippy::useless_conversion, reason = "it is none with the types of older versions")]
        let spec = TokenReviewSpec { token: token.to_owned().into(), ..Default::default() };
        let review = TokenReview { spec, ..Default::default() };
        let status = self.ask(review).await.map(|review| review.status.unwrap_or_default());
        let status = status.map_err(|error| {
            warn("TokenReview", "tokenreviews.authentication.k8s.io", &error);
            refused(StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed")
        })?;
        let user = status.user.filter(|_| status.authenticated == Some(true));
        self.users.keep(token.to_owned(), user.clone(), TOKEN_TTL);
        Ok(user)
    }

    /// Whether this user may send this request.
    async fn may(&self, user: UserInfo, head: &Parts) -> kube::Result<bool> {
        let attributes = NonResourceAttributes {
            path: Some(head.uri.path().to_owned()),
            verb: Some(head.method.as_str().to_ascii_lowercase()),
        };
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(attributes),
            ..Default::default()
        };
        let question = serde_json::to_string(&spec).map_err(kube::Error::SerdeError)?;
        if let Some(allowed) = self.permissions.get(&question) {
            return Ok(allowed);
        }
        let status = self.ask(SubjectAccessReview { spec, ..Default::default() }).await?.status;
        let allowed = status.is_some_and(|status| status.allowed && status.denied != Some(true));
        self.permissions.keep(question, allowed, if allowed { ALLOWED_TTL } else { DENIED_TTL });
        Ok(allowed)
    }

    /// Sends a review to the API server, which answers with the review and its status.
    async fn ask<K>(&self, review: K) -> kube::Result<K>
    where
        K: crate::Object<DynamicType = ()> + serde::Serialize,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let params = PostParams::default();
        let asking = async {
            let _slot = self.reviews.acquire().await;
            api.create(&params, &review).await
        };
        // Strangers with bad tokens may fill the slots of a slow API server: others must not wait for all of them.
        match tokio::time::timeout(REVIEW_WITHIN, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(kube::Error::Service(format!("no answer within {REVIEW_WITHIN:?}").into())),
        }
    }
}

/// The header with the credentials of a client that comes through the API server's proxy, which removes `Authorization`.
const FORWARDED: &str = "x-evenkeel-authorization";

fn bearer_token(head: &Parts) -> Option<&str> {
    let given = head.headers.get(header::AUTHORIZATION).or_else(|| head.headers.get(FORWARDED));
    let value = given?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn refused(code: StatusCode, why: &str) -> Refusal {
    Box::new(text(code, &format!("{why}\n")))
}

fn warn(kind: &str, resource: &str, error: &kube::Error) {
    tracing::warn!(
        error = chain(error),
        "cannot ask the API server for a {kind} (hint: the operator's account must be allowed to create {resource}; \
         its `manifests` contain the rule)"
    );
}

/// A cache of results that expire, with at most [`REMEMBERED_MAX`] entries.
struct Remembered<T> {
    answers: Mutex<BTreeMap<String, (Instant, T)>>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self { answers: Mutex::default() }
    }
}

impl<T: Clone> Remembered<T> {
    fn get(&self, question: &str) -> Option<T> {
        let answers = self.answers.lock();
        let (until, answer) = answers.get(question)?;
        (Instant::now() < *until).then(|| answer.clone())
    }

    fn keep(&self, question: String, answer: T, ttl: Duration) {
        if question.len() > QUESTION_BYTES_MAX {
            return;
        }
        let (now, mut answers) = (Instant::now(), self.answers.lock());
        if answers.len() >= REMEMBERED_MAX {
            answers.retain(|_, (until, _)| now < *until);
        }
        if answers.len() >= REMEMBERED_MAX {
            answers.clear();
        }
        answers.insert(question, (now + ttl, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(authorization: &str) -> Parts {
        let request = http::Request::get("/metrics").header(header::AUTHORIZATION, authorization);
        request.body(()).unwrap().into_parts().0
    }

    /// The API server's proxy removes `Authorization`, on every cluster.
    #[test]
    fn a_token_may_come_through_a_proxy() {
        let head = |headers: &[(&str, &str)]| {
            let request =
                headers.iter().fold(http::Request::get("/"), |it, (name, value)| it.header(*name, *value));
            request.body(()).unwrap().into_parts().0
        };
        let forwarded = ("X-Evenkeel-Authorization", "Bearer a");
        assert_eq!(bearer_token(&head(&[forwarded])), Some("a"));
        assert_eq!(bearer_token(&head(&[forwarded, ("Authorization", "Bearer b")])), Some("b"));
        assert_eq!(bearer_token(&head(&[])), None);
    }

    #[test]
    fn a_token_has_the_scheme_bearer() {
        for (header, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Bearer", None),
            ("Bearer ", None),
            ("Basic abc", None),
            ("abc", None),
        ] {
            assert_eq!(bearer_token(&head(header)), token, "{header:?}");
        }
    }

    /// The wait for a slot had no end: behind a hundred strangers, a scraper waited ten seconds for each ten of them.
    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_a_review_may_take() {
        let silent = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<Response<kube::client::Body>, std::io::Error>>()
        });
        let access = Access::new(Client::new(silent, "default"));
        let begun = Instant::now();
        let heads: Vec<Parts> = (0..10 * REVIEWS_MAX).map(|n| head(&format!("Bearer {n}"))).collect();
        let answers = futures::future::join_all(heads.iter().map(|head| access.check(head))).await;
        assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|it| it.status() == 500)));
        assert_eq!(begun.elapsed(), REVIEW_WITHIN);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_forgotten_in_time_and_in_number() {
        let answers: Remembered<usize> = Remembered::default();
        answers.keep("a".into(), 1, Duration::from_secs(30));
        assert_eq!((answers.get("a"), answers.get("b")), (Some(1), None));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(answers.get("a"), None);
        for n in 0..3 * REMEMBERED_MAX {
            answers.keep(n.to_string(), n, Duration::from_secs(30));
            assert_eq!(answers.get(&n.to_string()), Some(n));
        }
        assert!(answers.answers.lock().len() <= REMEMBERED_MAX);
        answers.keep("x".repeat(QUESTION_BYTES_MAX + 1), 1, Duration::from_secs(30));
        assert_eq!(answers.get(&"x".repeat(QUESTION_BYTES_MAX + 1)), None);
    }
}
