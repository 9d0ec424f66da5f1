//! The subresource `serviceaccounts/token`: issuing service account tokens.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_schema::api_resources::split_api_version;
use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::{Value, json};
use evenkeel_schema::json_order;
use evenkeel_schema::time::{self, Precision};
use evenkeel_store::Entry;
use http::Response;
use jiff::SignedDuration;

use crate::admission::{self, Admission, Operation};
use crate::authenticate::{Account, AccountToken, Bound, ISSUER};
use crate::body::Body;
use crate::context::RequestContext;
use crate::incoming::{Incoming, write_query};
use crate::registry::storage_prefix;
use crate::status::{Result, Status};
use crate::storage;
use crate::{Header, ResourceInfo, managed_fields, respond};

/// The annotation of audit events that holds the ID of the issued token.
const ISSUED: &str = "authentication.kubernetes.io/issued-credential-id";
const GROUP: &str = "authentication.k8s.io";
/// The lifetime of a token whose request names none.
const SECONDS: i64 = 3600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;
/// The lifetime that kubelets request for pods. As in Kubernetes, such tokens live for a year, for programs
/// that read their token only once.
const POD_SECONDS: i64 = 3607;
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

/// The kinds of the core group to which a token can be bound, with their resources.
const BINDABLE: [(&str, &str); 3] = [("Pod", "pods"), ("Secret", "secrets"), ("Node", "nodes")];

/// Answers a POST to `serviceaccounts/{name}/token`.
pub(super) async fn issue(ctx: &RequestContext<'_>, body: Bytes) -> Result<Response<Body>> {
    let part_info = Arc::new(info(ctx));
    let part = RequestContext { info: &part_info, ..*ctx };
    let query = write_query(ctx, "CreateOptions")?;
    let mut incoming = Incoming::decode(&part, &query, &body)?;
    incoming.place(&part)?;
    let admission = Admission {
        ctx,
        operation: Operation::Create,
        name: &ctx.path.name,
        generate_name: "",
        old: None,
        part: Some(&part_info),
        dry_run: query.dry_run,
    };
    admission::mutate(&admission, &mut incoming.object).await?;
    if incoming.object["spec"]["expirationSeconds"].is_null() {
        incoming.object["spec"]["expirationSeconds"] = SECONDS.into();
    }
    if let Some(trail) = ctx.audit {
        // When the request was decoded, the audit event noted it without defaults.
        trail.note_object(&incoming.object);
    }
    managed_fields::track(&part, &mut incoming.object, None).await;
    let mut request = incoming.object.clone();
    check_name(ctx, &request)?;
    let entry = ctx.services.store.get(&ctx.key()).ok_or_else(|| ctx.not_found())?;
    set_missing_fields(ctx, &mut request, &entry)?;
    validate(&request)?;
    admission::validate(&admission, &request).await?;
    let token = token(ctx, &request, &entry)?;
    let now = ctx.services.env.now();
    let lives = SignedDuration::from_secs(seconds(&request));
    let expires = now.checked_add(lives).map_err(Status::internal)?;
    let (token, id) = ctx.services.authentication.issue(&token);
    if let Some(trail) = ctx.audit {
        trail.annotate(ISSUED, &format!("JTI={id}"));
    }
    request["status"] = json!({
        "token": token,
        "expirationTimestamp": time::print(expires, Precision::Seconds),
    });
    Ok(respond::json(201, json_order::print(&request)))
}

/// The resource with which a TokenRequest is decoded and tracked in managedFields.
fn info(ctx: &RequestContext<'_>) -> ResourceInfo {
    ResourceInfo {
        group: GROUP.into(),
        version: "v1".into(),
        kind: "TokenRequest".into(),
        plural: ctx.info.plural.clone(),
        namespaced: true,
        prefix: ctx.info.prefix.clone(),
        ..ResourceInfo::default()
    }
}

fn check_name(ctx: &RequestContext<'_>, request: &Value) -> Result<()> {
    let wanted = &ctx.path.name;
    let name = request["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() || name == wanted {
        return Ok(());
    }
    let why = "must match the service account name if specified";
    Err(Status::invalid(GROUP, "TokenRequest", wanted, &[FieldError::invalid("metadata.name", name, why)]))
}

/// Fills in the fields of a request that are not set.
fn set_missing_fields(ctx: &RequestContext<'_>, request: &mut Value, account: &Entry<Header>) -> Result<()> {
    let uid = request["metadata"]["uid"].as_str().unwrap_or_default();
    let actual = &account.header.uid;
    if !uid.is_empty() && *uid != **actual {
        let why = format!(
            "the UID in the token request ({uid}) does not match the UID of the service account ({actual})"
        );
        return Err(Status::conflict(GROUP, "TokenRequest", &ctx.path.name, &why));
    }
    let metadata = &mut request["metadata"];
    metadata["name"] = (*account.header.name).into();
    metadata["namespace"] = (*account.header.namespace).into();
    metadata["uid"] = (**actual).into();
    metadata["creationTimestamp"] = ctx.services.now().into();
    let spec = &mut request["spec"];
    if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
        spec["audiences"] = json!([ISSUER]);
    }
    if spec["boundObjectRef"].is_null() {
        // Kubernetes shows the field even if it is null.
        spec["boundObjectRef"] = Value::Null;
    }
    Ok(())
}

fn seconds(request: &Value) -> i64 {
    request["spec"]["expirationSeconds"].as_i64().unwrap_or_default()
}

fn validate(request: &Value) -> Result<()> {
    let asked = seconds(request);
    let why = match asked {
        ..SECONDS_MIN => "may not specify a duration less than 10 minutes",
        SECONDS_MIN..=SECONDS_MAX => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let error = FieldError::invalid("spec.expirationSeconds", asked, why);
    Err(Status::invalid(GROUP, "TokenRequest", "", &[error]))
}

fn token<'a>(
    ctx: &RequestContext<'_>,
    request: &Value,
    entry: &'a Entry<Header>,
) -> Result<AccountToken<'a>> {
    let bound = bound(ctx, &request["spec"]["boundObjectRef"])?;
    let audiences: Vec<String> =
        evenkeel_schema::json::from_value(request["spec"]["audiences"].clone()).unwrap_or_default();
    let asked = seconds(request);
    let extended = asked == POD_SECONDS && matches!(bound, Some(Bound::Pod(..))) && audiences == [ISSUER];
    let header = &entry.header;
    Ok(AccountToken {
        account: Account { namespace: &header.namespace, name: &header.name, uid: &header.uid },
        audiences,
        bound,
        seconds: if extended { EXTENDED_SECONDS } else { asked },
        warn_after: extended.then_some(asked),
    })
}

/// The object to which the token is bound.
fn bound(ctx: &RequestContext<'_>, reference: &Value) -> Result<Option<Bound>> {
    if !reference.is_object() {
        return Ok(None);
    }
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let (group, version) = split_api_version(text("apiVersion"));
    let (kind, name) = (text("kind"), text("name"));
    let bindable = BINDABLE.iter().find(|it| group.is_empty() && it.0 == kind);
    let Some((_, plural)) = bindable else {
        let kind = format!("{group}/{version}, Kind={kind}");
        return Err(Status::bad_request(format!("cannot bind token to object of type {kind}")));
    };
    let namespace = if *plural == "nodes" { "" } else { &ctx.path.namespace };
    let entry = find(ctx, plural, namespace, name).ok_or_else(|| Status::not_found("", plural, name))?;
    let (found, uid) = (entry.header.name.to_string(), entry.header.uid.to_string());
    let bound = match *plural {
        "pods" => Bound::Pod(found, uid.clone(), node_of(ctx, &entry)?),
        "secrets" => Bound::Secret(found, uid.clone()),
        _ => Bound::Node(found, uid.clone()),
    };
    let asked = text("uid");
    if !asked.is_empty() && asked != uid {
        let why = format!(
            "the UID in the bound object reference ({asked}) does not match the UID in record. \
             The object might have been deleted and then recreated"
        );
        return Err(Status::conflict("", kind, name, &why));
    }
    Ok(Some(bound))
}

/// The name and UID of a pod's node. Fails if the pod does not run as the service account of the request.
fn node_of(ctx: &RequestContext<'_>, pod: &Entry<Header>) -> Result<Option<(String, String)>> {
    let pod: Value = storage::read(pod)?;
    let account = &ctx.path.name;
    if pod["spec"]["serviceAccountName"] != **account {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
        )));
    }
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let uid = find(ctx, "nodes", "", node).map(|it| it.header.uid.to_string()).unwrap_or_default();
    Ok((!node.is_empty()).then(|| (node.to_owned(), uid)))
}

fn find(ctx: &RequestContext<'_>, plural: &str, namespace: &str, name: &str) -> Option<Arc<Entry<Header>>> {
    let prefix = storage_prefix("", plural);
    let folder = if namespace.is_empty() { prefix } else { format!("{prefix}{namespace}/") };
    ctx.services.store.get(&format!("{folder}{name}"))
}
