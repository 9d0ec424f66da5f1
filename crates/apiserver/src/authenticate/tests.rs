use evenkeel_env::EPOCH;
use evenkeel_schema::json::{Value, json};
use evenkeel_store::{Expect, Op, Options, Write};
use jiff::SignedDuration;

use super::*;
use crate::header::encode_object;

/// An `Authentication` whose store holds the service account `ns/robot` and the pod `ns/p`.
async fn world(env: Env, key: Option<SigningKey>) -> Authentication {
    let store = Store::memory(env.clone(), Options::default());
    for (plural, kind, name) in [("serviceaccounts", "ServiceAccount", "robot"), ("pods", "Pod", "p")] {
        let uid = format!("uid-{name}");
        let metadata = json!({"name": name, "namespace": "ns", "uid": uid});
        let (bytes, header) = encode_object(&json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}));
        let key = format!("/registry/core/{plural}/ns/{name}").into();
        store.write(Write { key, expect: Expect::Absent, op: Op::Put(bytes, header) }).await.unwrap();
    }
    Authentication::new(store, env, key.map(Arc::new))
}

fn token(bound: Option<Bound>) -> AccountToken<'static> {
    let account = Account { namespace: "ns", name: "robot", uid: "uid-robot" };
    AccountToken { account, audiences: vec![ISSUER.to_owned()], bound, seconds: 3600, warn_after: None }
}

#[tokio::test]
async fn a_token_proves_its_account() {
    for env in [Env::seeded(1), Env::system()] {
        let authentication = world(env, None).await;
        let pod = Bound::Pod("p".into(), "uid-p".into(), None);
        let made = authentication.issue(&token(Some(pod))).0;
        let Authenticated { user, audiences } = authentication.authenticate(&made, &[]).unwrap();
        assert_eq!(user.name, "system:serviceaccount:ns:robot");
        assert_eq!(
            user.groups,
            ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]
        );
        assert_eq!(user.extra["authentication.kubernetes.io/pod-uid"], ["uid-p"]);
        assert_eq!(audiences, [ISSUER]);
        assert!(authentication.authenticate(&format!("{made}x"), &[]).is_err());
        let other = authentication.authenticate(&made, &["vault".to_owned()]).err().unwrap();
        assert!(other.contains(r#"is invalid for the target audiences ["vault"]"#), "{other}");
    }
}

#[tokio::test]
async fn a_token_ends_with_what_it_is_bound_to() {
    let authentication = world(Env::seeded(1), None).await;
    let made = authentication.issue(&token(Some(Bound::Pod("p".into(), "uid-p".into(), None)))).0;
    let key = "/registry/core/pods/ns/p".into();
    authentication.store.write(Write { key, expect: Expect::Any, op: Op::Delete }).await.unwrap();
    let refusal = authentication.authenticate(&made, &[]).err().unwrap();
    assert_eq!(refusal, "[invalid bearer token, service account token has been invalidated]");
    let gone = AccountToken { account: Account { namespace: "ns", name: "none", uid: "" }, ..token(None) };
    assert!(authentication.authenticate(&authentication.issue(&gone).0, &[]).is_err());
}

#[test]
fn a_token_has_its_time() {
    let claims = token(None).claims(EPOCH, "id".to_owned());
    let store = Store::memory(Env::seeded(1), Options::default());
    let at =
        |seconds| account::check(&store, EPOCH + SignedDuration::from_secs(seconds), &claims).unwrap_err();
    assert_eq!(at(3661), "service account token has expired");
    assert_eq!(at(-61), "service account token is not valid yet");
    assert_eq!(at(3660), "serviceaccounts \"robot\" not found");
}

#[tokio::test]
async fn a_seeded_world_makes_the_same_token_again() {
    let first = world(Env::seeded(7), None).await;
    let again = world(Env::seeded(7), None).await;
    assert_eq!(first.issue(&token(None)), again.issue(&token(None)));
}

#[tokio::test]
async fn the_public_key_is_told_and_has_the_name_that_tokens_use() {
    let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
    let authentication = world(Env::system(), Some(key)).await;
    let made = authentication.issue(&token(None)).0;
    let header = made.split('.').next().unwrap();
    let header: Value = serde_json::from_slice(
        &base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, header).unwrap(),
    )
    .unwrap();
    assert_eq!(header["alg"], "ES256");
    assert_eq!(header["kid"], authentication.key().public()[0]["kid"]);
}
