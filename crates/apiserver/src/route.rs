//! From the head of a request to the station that answers it.

use std::borrow::Cow;
use std::sync::Arc;

use evenkeel_schema::selector::{FieldSelector, LabelSelector};
use http::{Method, Response};

use crate::access::{Attributes, Decision, Target};
use crate::authorize::{forbidden, impersonate};
use crate::body::Body;
use crate::call::Call;
use crate::request::{Request, ResourcePath, Route};
use crate::status::{Details, Result, Status, qualified, quote};
use crate::{ApiServer, ResourceInfo, User, component, nonresource, read, registry, subresource, write};

/// Answers a request that need wait for nothing: that for one object, as it is now. None for any other.
pub(crate) fn answer_now(server: &ApiServer, request: &Request<'_>) -> Option<Result<Response<Body>>> {
    let Route::Resource(path) = &request.route else { return None };
    let plain = request.verb() == "get" && path.subresource.is_empty();
    let newest = request.query.text("resourceVersion").is_empty() && server.store().is_current();
    (plain && newest).then(|| {
        let other = authorize(server, request)?;
        let info = &*find(server, request, path)?;
        let call = Call { server, request, path, info, user: other.as_deref().unwrap_or(request.user) };
        enter(&call)?;
        if component::is(info) { component::answer(&call) } else { read::get_now(&call) }
    })
}

/// Answers a request, or refuses it.
pub(crate) async fn answer<B>(server: &ApiServer, request: &Request<'_>, body: B) -> Result<Response<Body>>
where
    B: http_body::Body + Send + 'static,
{
    let other = authorize(server, request)?;
    let Route::Resource(path) = &request.route else {
        return nonresource::answer(server, request);
    };
    let info = &*find(server, request, path)?;
    let call = Call { server, request, path, info, user: other.as_deref().unwrap_or(request.user) };
    let verb = enter(&call)?;
    let plain = path.subresource.is_empty() && !component::is(info);
    if verb == "get" && plain {
        return read::get(&call).await;
    }
    // The futures of everything else are large; most requests are spared the room for them.
    Box::pin(serve_verb(&call, verb, body)).await
}

/// The verb of a request that the resource takes, and its key is sound; else the refusal.
fn enter(call: &Call<'_>) -> Result<&'static str> {
    if let Some(warning) = deprecation(call.info) {
        call.request.warn(warning);
    }
    let verb = call.request.verb();
    check_verb(call, verb)?;
    if verb != "create" {
        check_key(call)?;
    }
    Ok(verb)
}

/// What is said with every answer of a resource that is to go.
fn deprecation(info: &ResourceInfo) -> Option<&'static str> {
    match (info.group.as_str(), info.kind.as_str()) {
        ("", "Endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

async fn serve_verb<B>(call: &Call<'_>, verb: &str, body: B) -> Result<Response<Body>>
where
    B: http_body::Body + Send + 'static,
{
    let body = if matches!(verb, "get" | "list" | "watch") {
        Default::default()
    } else {
        call.read_body(body).await?
    };
    if !call.path.subresource.is_empty() {
        return subresource::answer(call, verb, body).await;
    }
    match verb {
        "get" | "list" if component::is(call.info) => component::answer(call),
        "list" => read::list(call).await,
        "watch" => read::watch(call).await,
        "create" if subresource::is_virtual(call.info) => subresource::review(call, body).await,
        "create" => write::create(call, body).await,
        "update" => write::update(call, body).await,
        "patch" => write::patch(call, body).await,
        "delete" => write::delete(call, body).await,
        "deletecollection" => write::delete_collection(call, body).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// Who the request acts as, where that is another than who sends it; a refusal if that user may not do it.
fn authorize(server: &ApiServer, request: &Request<'_>) -> Result<Option<Box<User>>> {
    let authorizer = &*server.inner().authorizer;
    // A list of one name counts as access to that name.
    let name = match &request.route {
        Route::Resource(path) if path.name.is_empty() => selected_name(request).into(),
        Route::Resource(path) => Cow::Borrowed(&*path.name),
        Route::Other => Cow::default(),
    };
    let target = match &request.route {
        Route::Other => Target::Path(request.path),
        Route::Resource(path) => Target::Resource {
            group: &path.group,
            version: &path.version,
            resource: &path.resource,
            subresource: &path.subresource,
            // A namespace lies in itself, so that a role in it can grant access to it.
            namespace: if path.resource == "namespaces" && !path.nested {
                &path.name
            } else {
                &path.namespace
            },
            name: &name,
        },
    };
    let own = Attributes { user: request.user, verb: request.verb(), target };
    let other = impersonate(authorizer, &own, request.headers)?;
    let user = other.as_ref().unwrap_or(request.user);
    let attributes = Attributes { user, ..own };
    match authorizer.authorize(&attributes) {
        Decision::Allow(_) => Ok(other.map(Box::new)),
        Decision::Deny(reason) => Err(forbidden(&attributes, &reason)),
    }
}

fn selected_name(request: &Request<'_>) -> String {
    // Options that cannot be read as a whole say nothing.
    if LabelSelector::parse(request.query.text("labelSelector")).is_err() {
        return String::new();
    }
    let selector = request.query.text("fieldSelector");
    let parsed = FieldSelector::parse(selector).ok();
    parsed.and_then(|it| it.exact("metadata.name").map(str::to_owned)).unwrap_or_default()
}

/// The resource of a path, or the refusal for a path that leads nowhere.
fn find(
    server: &ApiServer,
    request: &Request<'_>,
    path: &ResourcePath<'_>,
) -> Result<Cow<'static, Arc<ResourceInfo>>> {
    // Asked only where something is missing: it looks at every resource.
    let missing = || match registry::built_in().iter().any(|it| it.group == path.group) {
        true => Status::no_such_resource(),
        false => Status::page_not_found(),
    };
    if path.broken || path.nested {
        return Err(missing());
    }
    let info = server.registry().look_up(&path.group, &path.version, &path.resource).ok_or_else(missing)?;
    let inside = !path.namespace.is_empty() && path.resource != "namespaces";
    if inside && !info.namespaced {
        return Err(missing());
    }
    if info.namespaced && !inside {
        let whole = path.name.is_empty();
        let across = whole && matches!(request.verb(), "list" | "watch");
        if info.is_custom() && !across || !whole {
            return Err(missing());
        }
        if !across {
            return Err(Status::method_not_allowed());
        }
    }
    if !path.subresource.is_empty() && info.subresource(&path.subresource).is_none() {
        let custom = info.is_custom();
        return Err(if custom {
            Status::not_found(&info.group, &info.plural, &path.name)
        } else {
            Status::no_such_resource()
        });
    }
    Ok(info)
}

/// Refuses names that would lead elsewhere as parts of a path.
fn check_key(call: &Call<'_>) -> Result<()> {
    let (name, namespace) = (&call.path.name, &call.path.namespace);
    // An escaped slash divides like a plain one, and such a path leads nowhere.
    if has(name, b'/') || has(namespace, b'/') {
        return Err(Status::no_such_resource());
    }
    if let Some(why) = path_segment_error(name) {
        return Err(Status::bad_request(format!("Name parameter invalid: {}: {why}", quote(name))));
    }
    // Kubernetes finds out only when it asks its storage, whose keys begin in a form of their own.
    if matches!(&**namespace, "." | "..") {
        let name = if name.is_empty() { String::new() } else { format!("/{name}") };
        let key = format!("/{}/{namespace}{name}", storage_name(call.info));
        return Err(Status::server_error(format!("invalid key: {}", quote(&key))));
    }
    Ok(())
}

fn path_segment_error(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        name if has(name, b'%') => Some("may not contain '%'"),
        _ => None,
    }
}

/// Whether a text has an ASCII character. Names are short: looking at each byte costs less than searching.
fn has(text: &str, character: u8) -> bool {
    text.bytes().any(|byte| byte == character)
}

/// The folder in which Kubernetes keeps a resource.
fn storage_name(info: &ResourceInfo) -> String {
    match (info.group.as_str(), info.plural.as_str()) {
        (group, plural) if info.is_custom() => format!("{group}/{plural}"),
        ("", "services") => "services/specs".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        (_, plural) => plural.to_owned(),
    }
}

fn check_verb(call: &Call<'_>, verb: &str) -> Result<()> {
    if *call.request.method == Method::HEAD {
        return Err(Status::method_not_allowed());
    }
    let named = !call.path.name.is_empty();
    let verbs = match call.info.subresource(&call.path.subresource) {
        Some(subresource) => &subresource.verbs,
        None => &call.info.verbs,
    };
    let fits = match verb {
        "create" => !named || !call.path.subresource.is_empty(),
        "update" | "patch" => named,
        _ => true,
    };
    if fits && verbs.iter().any(|it| it == verb) {
        return Ok(());
    }
    if !call.info.is_custom() {
        return Err(Status::method_not_allowed());
    }
    if !named && matches!(verb, "update" | "patch") {
        return Err(Status::bad_request("name must be provided"));
    }
    let (group, plural) = (&call.info.group, &call.info.plural);
    let message =
        format!("{verb} is not supported on resources of kind {}", quote(&qualified(plural, group)));
    Err(Status::not_supported(message).with(Details::of(group, plural, "")))
}
