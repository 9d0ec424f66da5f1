//! The audit log: the events of each kind of request, byte for byte.

use std::sync::Arc;

use evenkeel_apiserver::access::{Attributes, Authorizer, Decision};
use evenkeel_apiserver::{ApiServer, Audit, AuditPolicy, AuditSink, Body, Options, User, bootstrap};
use evenkeel_env::Env;
use futures::future::BoxFuture;
use http::{Request, Response};
use insta::assert_snapshot;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// A sink that keeps lines in memory.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl AuditSink for Lines {
    fn record(&self, line: Vec<u8>) -> BoxFuture<'static, ()> {
        self.0.lock().push(String::from_utf8(line).unwrap());
        Box::pin(std::future::ready(()))
    }
}

/// A server with an audit policy, and the events that it recorded.
struct Recorded {
    server: ApiServer,
    lines: Arc<Lines>,
}

/// The secret data in the request bodies of these tests.
const SECRET: &str = "c2VjcmV0";

impl Recorded {
    async fn start(rules: &str) -> Self {
        Self::start_with(rules, Options::default()).await
    }

    async fn start_with(rules: &str, mut options: Options) -> Self {
        let env = Env::seeded(1);
        let store = bootstrap::memory(&env, evenkeel_store::Options::default()).await;
        let policy = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}");
        let (policy, _) = AuditPolicy::parse(policy.as_bytes()).unwrap();
        let lines = Arc::new(Lines::default());
        options.audit = Some(Audit::new(policy, lines.clone()));
        Self { server: ApiServer::new(store, env, options), lines }
    }

    /// Sends a request. `line` is `METHOD path`, each header is `name: value`.
    async fn send(&self, user: User, line: &str, headers: &[&str], body: &str) -> Response<Body> {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request =
            Request::builder().method(method).uri(path).extension(user).header("audit-id", "id");
        for header in headers {
            let (name, value) = header.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        self.server.clone().oneshot(request).await.unwrap()
    }

    /// Sends a request as the administrator.
    async fn ask(&self, line: &str, body: &str) -> Response<Body> {
        let patch =
            if line.starts_with("PATCH") { "application/merge-patch+json" } else { "application/json" };
        self.send(User::admin(), line, &[&format!("content-type: {patch}")], body).await
    }

    /// Returns the events since the last call, without the parts that all events of these tests have in
    /// common.
    fn events(&self) -> String {
        let lines = std::mem::take(&mut *self.lines.0.lock());
        let common = [
            (r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"#, "{"),
            (r#""auditID":"id","#, ""),
            (r#""user":{"username":"system:admin","groups":["system:masters","system:authenticated"]},"#, ""),
            (r#","requestReceivedTimestamp":"2026-01-01T00:00:00.000000Z""#, ""),
            (r#","stageTimestamp":"2026-01-01T00:00:00.000000Z""#, ""),
            (
                r#","annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}"#,
                ",allowed",
            ),
        ];
        common.iter().fold(lines.concat(), |text, (long, short)| text.replace(long, short))
    }
}

const METADATA: &str = "omitStages: [RequestReceived]\nrules: [{level: Metadata}]";
const BODIES: &str =
    "omitStages: [RequestReceived]\nomitManagedFields: true\nrules: [{level: RequestResponse}]";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

#[tokio::test(start_paused = true)]
async fn an_event_is_written_as_kube_apiserver_writes_it() {
    let recorded = Recorded::start("rules: [{level: Metadata}]").await;
    recorded.ask("GET /api/v1/namespaces/default?a=1&b=%3C", "").await;
    let lines = std::mem::take(&mut *recorded.lines.0.lock());
    assert_eq!(
        lines,
        [
            concat!(
                r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"id","#,
                r#""stage":"RequestReceived","requestURI":"/api/v1/namespaces/default?a=1\u0026b=%3C","#,
                r#""verb":"get","user":{"username":"system:admin","#,
                r#""groups":["system:masters","system:authenticated"]},"#,
                r#""objectRef":{"resource":"namespaces","namespace":"default","name":"default","apiVersion":"v1"},"#,
                r#""requestReceivedTimestamp":"2026-01-01T00:00:00.000000Z","#,
                r#""stageTimestamp":"2026-01-01T00:00:00.000000Z"}"#,
                "\n"
            ),
            concat!(
                r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"id","#,
                r#""stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default?a=1\u0026b=%3C","#,
                r#""verb":"get","user":{"username":"system:admin","#,
                r#""groups":["system:masters","system:authenticated"]},"#,
                r#""objectRef":{"resource":"namespaces","namespace":"default","name":"default","apiVersion":"v1"},"#,
                r#""responseStatus":{"metadata":{},"code":200},"#,
                r#""requestReceivedTimestamp":"2026-01-01T00:00:00.000000Z","#,
                r#""stageTimestamp":"2026-01-01T00:00:00.000000Z","#,
                r#""annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}"#,
                "\n"
            ),
        ]
    );
}

/// Returns the events of a request by the administrator.
async fn events(recorded: &Recorded, line: &str, body: &str) -> String {
    recorded.ask(line, body).await;
    recorded.events()
}

#[tokio::test(start_paused = true)]
async fn metadata_names_the_object_and_never_its_data() {
    let recorded = Recorded::start(METADATA).await;
    let body = format!(r#"{{"metadata":{{"name":"s"}},"data":{{"p":"{SECRET}"}}}}"#);
    let item = format!("{SECRETS}/s");
    let requests = [
        (format!("POST {SECRETS}"), body.clone()),
        (format!("GET {item}"), String::new()),
        (format!("GET {SECRETS}?limit=5"), String::new()),
        (format!("PUT {item}"), body.clone()),
        (format!("PATCH {item}"), format!(r#"{{"data":{{"p":"{SECRET}"}}}}"#)),
        (format!("DELETE {item}"), r#"{"propagationPolicy":"Background"}"#.to_owned()),
        (format!("GET {item}"), String::new()),
        (format!("DELETE {SECRETS}"), String::new()),
    ];
    let mut all = String::new();
    for (line, body) in &requests {
        all += &events(&recorded, line, body).await;
    }
    assert!(!all.contains(SECRET));
    assert_snapshot!(all, @r#"
    {"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/secrets","verb":"create","objectRef":{"resource":"secrets","namespace":"default","name":"s","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":201},allowed}
    {"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/secrets/s","verb":"get","objectRef":{"resource":"secrets","namespace":"default","name":"s","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},allowed}
    {"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/secrets?limit=5","verb":"list","objectRef":{"resource":"secrets","namespace":"default","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},allowed}
    {"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/secrets/s","verb":"update","objectRef":{"resource":"secrets","namespace":"default","name":"s","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},allowed}
    {"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/secrets/s","verb":"patch","objectRef":{"resource":"secrets","namespace":"default","name":"s","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},allowed}
    {"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/secrets/s","verb":"delete","objectRef":{"resource":"secrets","namespace":"default","name":"s","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Success","details":{"name":"s","kind":"secrets","uid":"88dc97e5-aab5-4e3d-a833-bdcdb6d1beb1"},"code":200},allowed}
    {"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/secrets/s","verb":"get","objectRef":{"resource":"secrets","namespace":"default","name":"s","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Failure","message":"secrets \"s\" not found","reason":"NotFound","details":{"name":"s","kind":"secrets"},"code":404},allowed}
    {"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/secrets","verb":"deletecollection","objectRef":{"resource":"secrets","namespace":"default","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},allowed}
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_quotes_a_secret_is_recorded_without_its_message() {
    let recorded = Recorded::start(METADATA).await;
    let answer = recorded.ask(&format!("POST {SECRETS}"), &format!(r#"{{"data":{{"p":"{SECRET}"}},]"#)).await;
    let told = String::from_utf8(answer.into_body().whole().unwrap().to_vec()).unwrap();
    assert!(told.contains(SECRET), "the client is told: {told}");
    let events = recorded.events();
    assert!(!events.contains(SECRET), "{events}");
    assert!(events.contains(r#""message":"not recorded at this level"#), "{events}");
    // The body of another kind may be quoted.
    recorded.ask("POST /api/v1/namespaces/default/configmaps", r#"{"data":{"p":"quoted"},]"#).await;
    assert!(recorded.events().contains("quoted"));
}

#[tokio::test(start_paused = true)]
async fn bodies_are_kept_at_the_level_that_asks_for_them() {
    let maps = "/api/v1/namespaces/default/configmaps";
    let body = r#"{"metadata":{"name":"m"},"data":{"k":"v"}}"#;
    let recorded = Recorded::start(BODIES).await;
    assert_snapshot!(events(&recorded, &format!("POST {maps}"), body).await, @r#"{"RequestResponse","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/configmaps","verb":"create","objectRef":{"resource":"configmaps","namespace":"default","name":"m","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":201},"requestObject":{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":{"name":"m"}},"responseObject":{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","name":"m","namespace":"default","resourceVersion":"186","uid":"88dc97e5-aab5-4e3d-a833-bdcdb6d1beb1"}},allowed}"#);
    assert_snapshot!(events(&recorded, &format!("PATCH {maps}/m"), "{ \"data\": {\n\"k\": \"a < b\"} }").await, @r#"{"RequestResponse","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/configmaps/m","verb":"patch","objectRef":{"resource":"configmaps","namespace":"default","name":"m","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"requestObject":{"data":{"k":"a \u003c b"}},"responseObject":{"apiVersion":"v1","data":{"k":"a \u003c b"},"kind":"ConfigMap","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","name":"m","namespace":"default","resourceVersion":"187","uid":"88dc97e5-aab5-4e3d-a833-bdcdb6d1beb1"}},allowed}"#);
    assert_snapshot!(events(&recorded, &format!("GET {maps}/other"), "").await, @r#"{"RequestResponse","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/configmaps/other","verb":"get","objectRef":{"resource":"configmaps","namespace":"default","name":"other","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Failure","message":"configmaps \"other\" not found","reason":"NotFound","details":{"name":"other","kind":"configmaps"},"code":404},"responseObject":{"apiVersion":"v1","code":404,"details":{"kind":"configmaps","name":"other"},"kind":"Status","message":"configmaps \"other\" not found","metadata":{},"reason":"NotFound","status":"Failure"},allowed}"#);
    assert_snapshot!(events(&recorded, &format!("DELETE {maps}/m"), r#"{"gracePeriodSeconds":0}"#).await, @r#"{"RequestResponse","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/configmaps/m","verb":"delete","objectRef":{"resource":"configmaps","namespace":"default","name":"m","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Success","details":{"name":"m","kind":"configmaps","uid":"88dc97e5-aab5-4e3d-a833-bdcdb6d1beb1"},"code":200},"requestObject":{"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions"},"responseObject":{"apiVersion":"v1","details":{"kind":"configmaps","name":"m","uid":"88dc97e5-aab5-4e3d-a833-bdcdb6d1beb1"},"kind":"Status","metadata":{},"status":"Success"},allowed}"#);
    let recorded = Recorded::start("omitStages: [RequestReceived]\nrules: [{level: Request}]").await;
    assert_snapshot!(events(&recorded, &format!("POST {maps}"), body).await, @r#"{"Request","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/configmaps","verb":"create","objectRef":{"resource":"configmaps","namespace":"default","name":"m","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":201},"requestObject":{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":{"name":"m"}},allowed}"#);
}

#[tokio::test(start_paused = true)]
async fn managed_fields_are_kept_unless_the_policy_leaves_them_out() {
    let maps = "/api/v1/namespaces/default/configmaps";
    let body = r#"{"metadata":{"name":"m"},"data":{"k":"v"}}"#;
    for (omit, kept) in [("false", true), ("true", false)] {
        let rules = format!("omitManagedFields: {omit}\nrules: [{{level: RequestResponse}}]");
        let recorded = Recorded::start(&rules).await;
        recorded.ask(&format!("POST {maps}?fieldManager=kept"), body).await;
        assert_eq!(recorded.events().contains("managedFields"), kept);
        recorded.ask(&format!("GET {maps}"), "").await;
        assert_eq!(recorded.events().contains("managedFields"), kept);
        let table = "accept: application/json;as=Table;v=v1;g=meta.k8s.io";
        let url = format!("GET {maps}?includeObject=Object");
        recorded.send(User::admin(), &url, &[table], "").await;
        assert_eq!(recorded.events().contains("managedFields"), kept);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_recorded_when_it_begins_and_when_it_ends() {
    let recorded = Recorded::start("rules: [{level: RequestResponse}]").await;
    let watch = recorded.ask("GET /api/v1/pods?watch=1&fieldSelector=metadata.name%3Dp", "").await;
    assert_snapshot!(recorded.events(), @r#"
    {"RequestResponse","stage":"RequestReceived","requestURI":"/api/v1/pods?watch=1\u0026fieldSelector=metadata.name%3Dp","verb":"watch","objectRef":{"resource":"pods","name":"p","apiVersion":"v1"}}
    {"RequestResponse","stage":"ResponseStarted","requestURI":"/api/v1/pods?watch=1\u0026fieldSelector=metadata.name%3Dp","verb":"watch","objectRef":{"resource":"pods","name":"p","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},allowed}
    "#);
    drop(watch);
    assert_snapshot!(recorded.events(), @r#"{"RequestResponse","stage":"ResponseComplete","requestURI":"/api/v1/pods?watch=1\u0026fieldSelector=metadata.name%3Dp","verb":"watch","objectRef":{"resource":"pods","name":"p","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},allowed}"#);
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_client_goes_away_is_recorded_to_its_end() {
    let recorded = Recorded::start("rules: [{level: Metadata}]").await;
    let (never, body) = futures::channel::mpsc::unbounded::<bytes::Bytes>();
    let request = Request::post("/api/v1/namespaces").extension(User::admin()).header("audit-id", "id");
    let mut asked = recorded.server.clone().oneshot(request.body(Body::stream(body)).unwrap());
    assert!(futures::poll!(&mut asked).is_pending());
    drop((asked, never));
    assert_snapshot!(recorded.events(), @r#"
    {"Metadata","stage":"RequestReceived","requestURI":"/api/v1/namespaces","verb":"create","objectRef":{"resource":"namespaces","apiVersion":"v1"}}
    {"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/namespaces","verb":"create","objectRef":{"resource":"namespaces","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Success","message":"Connection closed early","code":200},allowed}
    "#);
}

/// An authorizer that panics.
struct Mistaken;

impl Authorizer for Mistaken {
    fn authorize(&self, _: &Attributes<'_>) -> Decision {
        panic!("a mistake")
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_stage_of_its_own() {
    let mut options = Options::default();
    options.authorizer = Some(Arc::new(Mistaken));
    let recorded = Recorded::start_with(METADATA, options).await;
    let answer = recorded.ask("GET /api/v1/nodes", "").await;
    assert_eq!((answer.status().as_u16(), &answer.headers()["audit-id"]), (500, &"id".parse().unwrap()));
    assert_snapshot!(recorded.events(), @r#"{"Metadata","stage":"Panic","requestURI":"/api/v1/nodes","verb":"list","objectRef":{"resource":"nodes","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Failure","message":"APIServer panic'd: see the server's log for the cause","reason":"InternalError","code":500}}"#);
}

#[tokio::test(start_paused = true)]
async fn users_are_recorded_with_the_decision_about_them() {
    let recorded = Recorded::start(METADATA).await;
    let mut alice = User::new("alice", ["devs", "system:authenticated"]);
    alice.uid = "7".to_owned();
    alice.extra.insert("scope".to_owned(), vec!["a".to_owned()]);
    recorded.send(alice, "GET /api/v1/nodes", &["user-agent: curl/8"], "").await;
    assert_snapshot!(recorded.events(), @r#"{"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/nodes","verb":"list","user":{"username":"alice","uid":"7","groups":["devs","system:authenticated"],"extra":{"scope":["a"]}},"userAgent":"curl/8","objectRef":{"resource":"nodes","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Failure","message":"nodes is forbidden: User \"alice\" cannot list resource \"nodes\" in API group \"\" at the cluster scope","reason":"Forbidden","details":{"kind":"nodes"},"code":403},"annotations":{"authorization.k8s.io/decision":"forbid","authorization.k8s.io/reason":""}}"#);
    recorded.send(User::anonymous(), "GET /version", &["x-forwarded-for: 10.0.0.9"], "").await;
    assert_snapshot!(recorded.events(), @r#"{"Metadata","stage":"ResponseComplete","requestURI":"/version","verb":"get","user":{"username":"system:anonymous","groups":["system:unauthenticated"]},"sourceIPs":["10.0.0.9"],"responseStatus":{"metadata":{},"code":200},"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"system:public-info-viewer\" of ClusterRole \"system:public-info-viewer\" to Group \"system:unauthenticated\""}}"#);
    let headers = ["impersonate-user: bob", "impersonate-group: ops", "impersonate-extra-k: v"];
    recorded.send(User::admin(), "GET /api/v1/nodes", &headers, "").await;
    assert_snapshot!(recorded.events(), @r#"{"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/nodes","verb":"list","impersonatedUser":{"username":"bob","groups":["ops","system:authenticated"],"extra":{"k":["v"]}},"authenticationMetadata":{"impersonationConstraint":"impersonate:user-info"},"objectRef":{"resource":"nodes","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Failure","message":"nodes is forbidden: User \"bob\" cannot list resource \"nodes\" in API group \"\" at the cluster scope","reason":"Forbidden","details":{"kind":"nodes"},"code":403},"annotations":{"authorization.k8s.io/decision":"forbid","authorization.k8s.io/reason":""}}"#);
    // A request that may not impersonate has no decision on the request itself.
    recorded.send(User::new("eve", ["system:authenticated"]), "GET /api/v1/nodes", &headers, "").await;
    assert_snapshot!(recorded.events(), @r#"{"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/nodes","verb":"list","user":{"username":"eve","groups":["system:authenticated"]},"objectRef":{"resource":"nodes","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Failure","message":"nodes is forbidden: User \"eve\" cannot impersonate-on:user-info:list resource \"nodes\" in API group \"\" at the cluster scope","reason":"Forbidden","details":{"kind":"nodes"},"code":403}}"#);
}

#[tokio::test(start_paused = true)]
async fn parts_of_objects_and_answers_that_are_no_objects_are_recorded() {
    let recorded = Recorded::start(BODIES).await;
    assert_snapshot!(events(&recorded, "GET /version", "").await, @r#"{"RequestResponse","stage":"ResponseComplete","requestURI":"/version","verb":"get","responseStatus":{"metadata":{},"code":200},allowed}"#);
    assert_snapshot!(events(&recorded, "GET /nowhere", "").await, @r#"{"RequestResponse","stage":"ResponseComplete","requestURI":"/nowhere","verb":"get","responseStatus":{"metadata":{},"code":404},allowed}"#);
    assert_snapshot!(events(&recorded, "GET /apis/none/v1/things", "").await, @r#"{"RequestResponse","stage":"ResponseComplete","requestURI":"/apis/none/v1/things","verb":"list","objectRef":{"resource":"things","apiGroup":"none","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":404},allowed}"#);
    assert_snapshot!(events(&recorded, "GET /api/v1/namespaces/default/pods/p/log", "").await, @r#"
    {"RequestResponse","stage":"ResponseStarted","requestURI":"/api/v1/namespaces/default/pods/p/log","verb":"get","objectRef":{"resource":"pods","namespace":"default","name":"p","apiVersion":"v1","subresource":"log"},"responseStatus":{"metadata":{},"status":"Failure","message":"pods \"p\" not found","reason":"NotFound","details":{"name":"p","kind":"pods"},"code":404},"responseObject":{"apiVersion":"v1","code":404,"details":{"kind":"pods","name":"p"},"kind":"Status","message":"pods \"p\" not found","metadata":{},"reason":"NotFound","status":"Failure"},allowed}
    {"RequestResponse","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/pods/p/log","verb":"get","objectRef":{"resource":"pods","namespace":"default","name":"p","apiVersion":"v1","subresource":"log"},"responseStatus":{"metadata":{},"status":"Failure","message":"pods \"p\" not found","reason":"NotFound","details":{"name":"p","kind":"pods"},"code":404},"responseObject":{"apiVersion":"v1","code":404,"details":{"kind":"pods","name":"p"},"kind":"Status","message":"pods \"p\" not found","metadata":{},"reason":"NotFound","status":"Failure"},allowed}
    "#);
    assert_snapshot!(events(&recorded, "GET /api/v1/componentstatuses/etcd-0", "").await, @r#"{"RequestResponse","stage":"ResponseComplete","requestURI":"/api/v1/componentstatuses/etcd-0","verb":"get","objectRef":{"resource":"componentstatuses","name":"etcd-0","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"responseObject":{"apiVersion":"v1","conditions":[{"message":"ok","status":"True","type":"Healthy"}],"kind":"ComponentStatus","metadata":{"name":"etcd-0"}},"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"","k8s.io/deprecated":"true"}}"#);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_recorded_only_where_the_policy_asks_for_bodies() {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = r#"{"metadata":{"name":"a"}}"#;
    for (level, kept) in [("Metadata", false), ("Request", false), ("RequestResponse", true)] {
        let recorded = Recorded::start(&format!("rules: [{{level: {level}}}]")).await;
        recorded.ask(&format!("POST {accounts}"), account).await;
        recorded.events();
        let answer = recorded.ask(&format!("POST {accounts}/a/token"), r#"{"spec":{}}"#).await;
        let answer: serde_json::Value = serde_json::from_slice(&answer.into_body().whole().unwrap()).unwrap();
        let token = answer["status"]["token"].as_str().unwrap().to_owned();
        let events = recorded.events();
        assert_eq!(events.contains(&token), kept, "{level}");
        assert!(events.contains(r#""authentication.kubernetes.io/issued-credential-id":"JTI="#), "{events}");
        // A TokenReview contains a token in its body. The bearer token of the request itself is never
        // recorded.
        let review = format!(r#"{{"spec":{{"token":"{token}"}}}}"#);
        let headers = ["content-type: application/json", "authorization: Bearer own-token"];
        let reviews = "POST /apis/authentication.k8s.io/v1/tokenreviews?access_token=own-token";
        recorded.send(User::admin(), reviews, &headers, &review).await;
        let events = recorded.events();
        assert_eq!(events.contains(&token), level != "Metadata", "{level}");
        assert!(!events.contains("own-token") && events.contains("access_token=REDACTED"), "{events}");
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_credentials_are_one_event_without_a_user() {
    let recorded = Recorded::start("rules: [{level: Metadata}]").await;
    let request = Request::get("/api/v1/nodes").header("authorization", "Bearer x").header("audit-id", "id");
    let mut head = request.body(()).unwrap().into_parts().0;
    let status = evenkeel_apiserver::Status::unauthorized();
    let mut answer = Response::builder().status(401).body(Body::from(status.to_json())).unwrap();
    let remote = "192.0.2.1".parse().ok();
    recorded.server.audit_unauthenticated(&mut head, remote, &mut answer).await;
    assert_eq!(answer.headers()["audit-id"], "id");
    assert_snapshot!(recorded.events(), @r#"{"Metadata","stage":"ResponseStarted","requestURI":"/api/v1/nodes","verb":"list","user":{},"sourceIPs":["192.0.2.1"],"objectRef":{"resource":"nodes","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}}"#);
}

#[tokio::test(start_paused = true)]
async fn every_answer_has_an_audit_id_also_of_what_is_not_recorded() {
    let recorded = Recorded::start("rules: [{level: None, verbs: [get]}, {level: Metadata}]").await;
    let request = Request::get("/api/v1/nodes/a").extension(User::admin()).body(Body::empty()).unwrap();
    let answer = recorded.server.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.headers()["audit-id"].len(), "00000000-0000-0000-0000-000000000000".len());
    assert_eq!(recorded.events(), "");
    let answer = recorded.ask("GET /api/v1/nodes/a", "").await;
    assert_eq!(answer.headers()["audit-id"], "id");
}

#[tokio::test(start_paused = true)]
async fn pods_are_recorded_with_what_their_namespace_demands() {
    let recorded = Recorded::start(METADATA).await;
    let labels = r#"{"pod-security.kubernetes.io/enforce":"baseline","pod-security.kubernetes.io/audit":"restricted"}"#;
    recorded
        .ask("POST /api/v1/namespaces", &format!(r#"{{"metadata":{{"name":"a","labels":{labels}}}}}"#))
        .await;
    recorded.ask("POST /api/v1/namespaces/a/serviceaccounts", r#"{"metadata":{"name":"default"}}"#).await;
    recorded.events();
    let pod = |name: &str, host: bool| {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"hostNetwork":{host},"containers":[{{"name":"c","image":"i"}}]}}}}"#
        )
    };
    assert_snapshot!(events(&recorded, "POST /api/v1/namespaces/a/pods", &pod("p", false)).await, @r#"{"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/a/pods","verb":"create","objectRef":{"resource":"pods","namespace":"a","name":"p","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":201},"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"","pod-security.kubernetes.io/audit-violations":"would violate PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")","pod-security.kubernetes.io/enforce-policy":"baseline:latest"}}"#);
    assert_snapshot!(events(&recorded, "POST /api/v1/namespaces/a/pods", &pod("q", true)).await, @r#"{"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/a/pods","verb":"create","objectRef":{"resource":"pods","namespace":"a","name":"q","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Failure","message":"pods \"q\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)","reason":"Forbidden","details":{"name":"q","kind":"pods"},"code":403},"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"","pod-security.kubernetes.io/audit-violations":"would violate PodSecurity \"restricted:latest\": host namespaces (hostNetwork=true), allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")","pod-security.kubernetes.io/enforce-policy":"baseline:latest"}}"#);
}

/// A webhook that adds a label to every object, and is unreachable at `/down`.
struct Labels;

impl evenkeel_apiserver::WebhookCaller for Labels {
    fn post(
        &self,
        question: evenkeel_apiserver::WebhookQuestion,
    ) -> BoxFuture<'_, Result<evenkeel_apiserver::WebhookAnswer, String>> {
        Box::pin(async move {
            if question.path.starts_with("/down") {
                return Err("connection refused".to_owned());
            }
            let review: Value = serde_json::from_slice(&question.body).unwrap_or_default();
            // [{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]
            let patch = "W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscyIsInZhbHVlIjp7ImEiOiJiIn19XQ==";
            let mut response = json!({"uid": review["request"]["uid"], "allowed": true,
                "auditAnnotations": {"seen": "yes"}});
            if question.path.starts_with("/label") {
                response["patch"] = patch.into();
                response["patchType"] = "JSONPatch".into();
            }
            let body =
                json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            Ok(evenkeel_apiserver::WebhookAnswer {
                code: 200,
                content_type: String::new(),
                body: body.to_string().into(),
            })
        })
    }
}

/// The annotations in the last audit event.
fn annotations(world: &Recorded) -> Value {
    let lines = std::mem::take(&mut *world.lines.0.lock());
    let last: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    let mut annotations = last["annotations"].clone();
    let map = annotations.as_object_mut().unwrap();
    map.retain(|key, _| !key.starts_with("authorization.k8s.io/"));
    annotations
}

const REGISTRATION: &str = "POST /apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "POST /api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn webhooks_are_annotated() {
    for level in ["Metadata", "Request"] {
        let mut options = Options::default();
        options.webhooks = Some(Arc::new(Labels));
        let world = Recorded::start_with(&format!("rules: [{{level: {level}}}]"), options).await;
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]});
        let hook = |name: &str, path: &str| {
            json!({"name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [rule],
                "failurePolicy": "Ignore", "clientConfig": {"url": format!("https://127.0.0.1:1/{path}")}})
        };
        let mutating = json!({"metadata": {"name": "m"},
            "webhooks": [hook("down.x.io", "down"), hook("label.x.io", "label"), hook("look.x.io", "look")]});
        let validating = json!({"metadata": {"name": "v"},
            "webhooks": [hook("see.x.io", "see"), hook("gone.x.io", "down")]});
        for (plural, object) in
            [("mutatingwebhookconfigurations", mutating), ("validatingwebhookconfigurations", validating)]
        {
            let made = world.ask(&format!("{REGISTRATION}/{plural}"), &object.to_string()).await;
            assert_eq!(made.status(), 201);
        }
        assert_eq!(world.ask(MAPS, r#"{"metadata":{"name":"c"}}"#).await.status(), 201);
        let mutation = |name: &str, mutated: bool| {
            format!(r#"{{"configuration":"m","webhook":"{name}","mutated":{mutated}}}"#)
        };
        let mut wanted = json!({
            "failed-open.mutation.webhook.admission.k8s.io/round_0_index_0": "down.x.io",
            "mutation.webhook.admission.k8s.io/round_0_index_0": mutation("down.x.io", false),
            "mutation.webhook.admission.k8s.io/round_0_index_1": mutation("label.x.io", true),
            "mutation.webhook.admission.k8s.io/round_0_index_2": mutation("look.x.io", false),
            "label.x.io/seen": "yes", "look.x.io/seen": "yes", "see.x.io/seen": "yes",
            "failed-open.validating.webhook.admission.k8s.io/round_0_index_1": "gone.x.io",
        });
        if level == "Request" {
            let patch = r#"[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]"#;
            wanted["patch.webhook.admission.k8s.io/round_0_index_1"] = format!(
                r#"{{"configuration":"m","webhook":"label.x.io","patch":{patch},"patchType":"JSONPatch"}}"#
            )
            .into();
        }
        assert_eq!(annotations(&world), wanted, "{level}");
    }
}

#[tokio::test(start_paused = true)]
async fn policies_are_annotated() {
    let world = Recorded::start("rules: [{level: Metadata}]").await;
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "true"}, {"expression": "object.metadata.name != 'bad'", "message": "no"}],
        "auditAnnotations": [{"key": "name", "valueExpression": "' ' + object.metadata.name"},
            {"key": "none", "valueExpression": "null"}]}});
    let binding = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"policyName": "p",
        "validationActions": ["Audit", "Warn"]}})
    };
    for (plural, object) in [
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", binding("b")),
        ("validatingadmissionpolicybindings", binding("c")),
    ] {
        let made = world.ask(&format!("{REGISTRATION}/{plural}"), &object.to_string()).await;
        assert_eq!(made.status(), 201);
    }
    assert_eq!(world.ask(MAPS, r#"{"metadata":{"name":"good"}}"#).await.status(), 201);
    assert_eq!(annotations(&world), json!({"p/name": "good"}));
    let made = world.ask(MAPS, r#"{"metadata":{"name":"bad"}}"#).await;
    assert_eq!(made.status(), 201);
    assert_eq!(made.headers().get_all("warning").iter().count(), 2);
    let failure = r#"[{"message":"no","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Audit","Warn"]}]"#;
    assert_eq!(
        annotations(&world),
        json!({"p/name": "bad", "validation.policy.admission.k8s.io/validation_failure": failure})
    );
}
