//! Fuzzes bearer tokens. The input is a token, or, after a zero byte, the unencoded parts of a token, one per
//! line. The server accepts no token that it did not sign.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evenkeel_fuzz::run;
use serde_json::json;

const ACCOUNT: &str = "/api/v1/namespaces/a/serviceaccounts/robot/token";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let token = match bytes.split_first() {
        Some((0, parts)) => {
            let parts: Vec<_> = parts.split(|byte| *byte == b'\n').map(|part| URL_SAFE_NO_PAD.encode(part)).collect();
            parts.join(".")
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    };
    run(|api| async move {
        let made = api.send("POST", ACCOUNT, "application/json", br#"{"spec":{}}"#).await.expect("it is well formed");
        let made = made.json().expect("an object is no stream").expect("an object is JSON");
        let signed = made["status"]["token"].as_str().expect("an account has tokens");
        // The signature of a valid token must not make another token valid.
        let signature = signed.rsplit('.').next().unwrap_or_default();
        for token in [token.clone(), format!("{token}.{signature}")] {
            let review = json!({"spec": {"token": token}}).to_string();
            let answer = api.send("POST", REVIEWS, "application/json", review.as_bytes()).await.expect("it is well formed");
            let told = answer.json().expect("an object is no stream").expect("an object is JSON");
            assert!(answer.status == 201 || answer.status == 400, "{told}");
            assert_ne!(told["status"]["authenticated"], true, "{token}");
        }
        api.check_alive().await;
    });
});
