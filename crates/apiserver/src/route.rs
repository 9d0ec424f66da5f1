//! Routing: from the head of a request to the code that answers it.

use std::borrow::Cow;
use std::sync::Arc;

use evenkeel_request_info::{ApiPath, Defect, ResourcePath, SpecialVerb};
use http::{Method, Response};

use crate::access::{Attributes, Decision};
use crate::audit::Trail;
use crate::authorize::{forbidden, impersonate};
use crate::body::Body;
use crate::context::RequestContext;
use crate::registry::{Registry, built_in};
use crate::request::{Request, check_timeout, path_segment_error};
use crate::services::Services;
use crate::status::{Details, Result, Status, qualified, quote};
use crate::strategy::Unstored;
use crate::{ResourceInfo, User, component_status, conversion, nonresource, read, subresource, write};

/// Answers a request that never has to wait: a GET of one object in its current state. `None` for any other
/// request.
pub(crate) fn answer_now(services: &Services, request: &Request<'_>) -> Option<Result<Response<Body>>> {
    let ApiPath::Resource(path) = &request.route else { return None };
    let plain = request.verb() == "get" && path.subresource.is_empty();
    let newest = request.query.text("resourceVersion").is_empty() && services.store.is_current();
    if !plain || !newest || calls_webhook(services, path) {
        return None;
    }
    let answer = || {
        let other = authorize(services, request, None)?;
        let info = &*find(&services.registry, request, path)?;
        let user = other.as_deref().unwrap_or(request.user);
        let ctx = RequestContext { services, request, audit: None, path, info, user };
        enter(&ctx)?;
        if is_component_status(info) { component_status::answer(&ctx) } else { read::get_now(&ctx) }
    };
    Some(answer())
}

/// Whether a webhook converts the objects of a resource, so that a read may have to wait.
fn calls_webhook(services: &Services, path: &ResourcePath<'_>) -> bool {
    let info = services.registry.look_up(&path.group, &path.version, &path.resource);
    info.is_some_and(|info| conversion::calls_webhook(&info))
}

/// Answers a request, or refuses it.
pub(crate) async fn answer<B>(
    services: &Services,
    request: &Request<'_>,
    audit: Option<&Trail>,
    body: B,
) -> Result<Response<Body>>
where
    B: http_body::Body + Send + 'static,
{
    let other = authorize(services, request, audit)?;
    let ApiPath::Resource(path) = &request.route else {
        return nonresource::answer(services, request);
    };
    let info = &*find(&services.registry, request, path)?;
    let user = other.as_deref().unwrap_or(request.user);
    let ctx = RequestContext { services, request, audit, path, info, user };
    let verb = enter(&ctx)?;
    let plain = path.subresource.is_empty() && !is_component_status(info);
    if verb == "get" && plain {
        return read::get(&ctx).await;
    }
    // Boxed, because the futures of all other verbs are large and most requests need none of them.
    Box::pin(serve_verb(&ctx, verb, body)).await
}

/// Checks that the resource supports the verb and that the key is valid. Returns the verb.
fn enter(ctx: &RequestContext<'_>) -> Result<&'static str> {
    let verb = ctx.request.verb();
    check_verb(ctx, verb)?;
    if let Some(warning) = ctx.info.strategy.deprecation {
        ctx.request.warn(warning);
        if let Some(trail) = ctx.audit {
            trail.note_deprecation();
        }
    }
    if verb != "create" {
        check_key(ctx)?;
    }
    Ok(verb)
}

/// Whether requests to this resource are answered by `component_status`.
fn is_component_status(info: &ResourceInfo) -> bool {
    info.strategy.unstored == Some(Unstored::ComponentStatus)
}

async fn serve_verb<B>(ctx: &RequestContext<'_>, verb: &str, body: B) -> Result<Response<Body>>
where
    B: http_body::Body + Send + 'static,
{
    let body = if matches!(verb, "get" | "list" | "watch") {
        Default::default()
    } else {
        ctx.read_body(body).await?
    };
    if !ctx.path.subresource.is_empty() {
        return subresource::answer(ctx, verb, body).await;
    }
    match verb {
        "get" | "list" if is_component_status(ctx.info) => component_status::answer(ctx),
        "list" => read::list(ctx).await,
        "watch" => read::watch(ctx).await,
        "create" => match ctx.info.strategy.unstored {
            Some(resource) => subresource::review(ctx, resource, body).await,
            None => write::create(ctx, body).await,
        },
        "update" => write::update(ctx, body).await,
        "patch" => write::patch(ctx, body).await,
        "delete" => write::delete(ctx, body).await,
        "deletecollection" => write::delete_collection(ctx, body).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// Authorizes the request. Returns the impersonated user, if there is one.
fn authorize(services: &Services, request: &Request<'_>, audit: Option<&Trail>) -> Result<Option<Box<User>>> {
    refuse_malformed(request)?;
    let authorizer = &*services.authorizer;
    let selected = request.selected_name();
    let target = request.target(selected.as_deref());
    let own = Attributes { user: request.user, verb: request.verb(), target };
    let other = impersonate(authorizer, &own, request.headers)?;
    if let (Some(trail), Some(other)) = (audit, &other) {
        trail.note_impersonation(&other.user, &other.constraint);
    }
    let other = other.map(|it| it.user);
    let user = other.as_ref().unwrap_or(request.user);
    let attributes = Attributes { user, ..own };
    let decision = authorizer.authorize(&attributes);
    if let Some(trail) = audit {
        trail.note_decision(&decision);
    }
    match decision {
        Decision::Allow(_) => Ok(other.map(Box::new)),
        Decision::Deny(reason) => Err(forbidden(&attributes, &reason)),
    }
}

/// Refuses requests that cannot be interpreted.
fn refuse_malformed(request: &Request<'_>) -> Result<()> {
    if request.malformed {
        return Err(Status::plain(400, "400 Bad Request"));
    }
    if request.route == ApiPath::VerbOnly {
        return Err(Status::no_request_info(&request.path));
    }
    if request.is_long_running() { Ok(()) } else { check_timeout(request.query.text("timeout")) }
}

/// Finds the resource of a path; fails if the path matches no resource.
fn find(
    registry: &Registry,
    request: &Request<'_>,
    path: &ResourcePath<'_>,
) -> Result<Cow<'static, Arc<ResourceInfo>>> {
    // Evaluated only on failure, because it searches all resources.
    let missing = || match built_in().iter().any(|it| it.group == path.group) {
        true => Status::no_such_resource(),
        false => Status::page_not_found(),
    };
    if path.defect == Some(Defect::OutsideApi) {
        return Err(Status::page_not_found());
    }
    if path.defect == Some(Defect::Segments) || path.special_verb == Some(SpecialVerb::Proxy) {
        return Err(missing());
    }
    let info = registry.look_up(&path.group, &path.version, &path.resource).ok_or_else(missing)?;
    let inside = path.is_in_namespace();
    if inside && !info.namespaced {
        return Err(missing());
    }
    // A resource whose objects can only be created, such as a review, has no paths with object names.
    let of_items = |verb: &String| matches!(verb.as_str(), "get" | "update" | "patch" | "delete");
    if path.subresource.is_empty() && !path.name.is_empty() && !info.verbs.iter().any(of_items) {
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
    if path.defect == Some(Defect::Unnamed) && info.subresource(&path.subresource).is_some() {
        return Err(refuse_unnamed(request, &info, path));
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

/// The error for a subresource of an object without a name.
fn refuse_unnamed(request: &Request<'_>, info: &ResourceInfo, path: &ResourcePath<'_>) -> Status {
    let verb = match *request.method {
        Method::GET => "get",
        _ => request.verb(),
    };
    let verbs = info.subresource(&path.subresource).map(|it| it.verbs.as_slice()).unwrap_or_default();
    match verbs.iter().any(|it| it == verb) {
        true => Status::bad_request("name must be provided"),
        false => Status::method_not_allowed(),
    }
}

/// Refuses names that would change the meaning of a path.
fn check_key(ctx: &RequestContext<'_>) -> Result<()> {
    let (name, namespace) = (&ctx.path.name, &ctx.path.namespace);
    if let Some(why) = path_segment_error(name) {
        return Err(Status::bad_request(format!("Name parameter invalid: {}: {why}", quote(name))));
    }
    // Kubernetes notices this only in its storage, whose keys have another form.
    if matches!(&**namespace, "." | "..") {
        let name = if name.is_empty() { String::new() } else { format!("/{name}") };
        let key = format!("/{}/{namespace}{name}", storage_name(ctx.info));
        return Err(Status::server_error(format!("invalid key: {}", quote(&key))));
    }
    Ok(())
}

/// The directory of a resource in Kubernetes' storage.
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

fn check_verb(ctx: &RequestContext<'_>, verb: &str) -> Result<()> {
    // The verb in a path stands for any method, but only GET is served there.
    let by_path = ctx.path.special_verb.is_some() && *ctx.request.method != Method::GET;
    // A proxy also passes on the methods that have no verb.
    if ctx.path.subresource == "proxy" && matches!(*ctx.request.method, Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    if *ctx.request.method == Method::HEAD || by_path {
        return Err(Status::method_not_allowed());
    }
    let named = !ctx.path.name.is_empty();
    let verbs = match ctx.info.subresource(&ctx.path.subresource) {
        Some(subresource) => &subresource.verbs,
        None => &ctx.info.verbs,
    };
    let fits = match verb {
        "create" => !named || !ctx.path.subresource.is_empty(),
        "update" | "patch" => named,
        _ => true,
    };
    if fits && verbs.iter().any(|it| it == verb) {
        return Ok(());
    }
    if !ctx.info.is_custom() {
        return Err(Status::method_not_allowed());
    }
    if !named && matches!(verb, "update" | "patch") {
        return Err(Status::bad_request("name must be provided"));
    }
    let (group, plural) = (&ctx.info.group, &ctx.info.plural);
    let message =
        format!("{verb} is not supported on resources of kind {}", quote(&qualified(plural, group)));
    Err(Status::not_supported(message).with(Details::of(group, plural, "")))
}
