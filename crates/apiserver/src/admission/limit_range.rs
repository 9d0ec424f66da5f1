//! The LimitRanger plugin: default and maximum resources of containers, pods and claims.

use evenkeel_schema::field::aggregate;
use evenkeel_schema::json::{Map, Value, json};
use evenkeel_schema::pod_resources::{Amounts, Part, PodResources, read};
use evenkeel_schema::quantity::Quantity;
use evenkeel_store::Range;

use super::plugin::{Admission, Handles, Operation, Plugin};
use crate::registry::{GroupResource, storage_prefix};
use crate::status::{Result, Status};
use crate::storage;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The largest value that fits into an `i64` as thousandths.
const MILLI_MAX: i64 = i64::MAX / 1000;

#[derive(Debug)]
pub(super) struct LimitRanger;

impl Plugin for LimitRanger {
    fn handles(&self) -> Handles {
        Handles {
            operations: &[Operation::Create, Operation::Update],
            resources: &[GroupResource::PODS, GroupResource::PERSISTENT_VOLUME_CLAIMS],
            subresources: true,
        }
    }

    fn mutate(&self, admission: &Admission<'_>, object: &mut Value) -> Result<()> {
        if is_pod(admission) && applies_to(admission) {
            for range in ranges(admission)? {
                set_defaults(&range, object);
            }
        }
        Ok(())
    }

    fn validate(&self, admission: &Admission<'_>, object: &Value) -> Result<()> {
        if !applies_to(admission) {
            return Ok(());
        }
        for range in ranges(admission)? {
            let limits = range["spec"]["limits"].as_array().into_iter().flatten();
            let errors: Vec<String> = if is_pod(admission) {
                limits.flat_map(|limit| check_pod(limit, object)).collect()
            } else {
                limits.flat_map(|limit| check_claim(limit, object)).collect()
            };
            if !errors.is_empty() {
                let plural = &admission.ctx.info.plural;
                return Err(Status::not_admitted("", plural, admission.shown_name(), &aggregate(&errors)));
            }
        }
        Ok(())
    }
}

fn is_pod(admission: &Admission<'_>) -> bool {
    admission.is_about(GroupResource::PODS)
}

/// Whether limit ranges apply to this write: new pods, resized pods, and claims, unless they are being
/// deleted.
fn applies_to(admission: &Admission<'_>) -> bool {
    if admission.old.is_some_and(|old| old["metadata"]["deletionTimestamp"].is_string()) {
        return false;
    }
    let subresource = &*admission.ctx.path.subresource;
    match is_pod(admission) && admission.operation == Operation::Update {
        true => subresource == "resize",
        false => subresource.is_empty(),
    }
}

/// The LimitRanges of the namespace.
fn ranges(admission: &Admission<'_>) -> Result<Vec<Value>> {
    let prefix = format!("{}{}/", storage_prefix("", "limitranges"), admission.ctx.path.namespace);
    let page = admission.ctx.services.store.range(&Range { prefix, ..Range::default() });
    let page = page.map_err(Status::internal)?;
    page.entries.iter().map(|entry| storage::read(entry)).collect()
}

/// Sets the default resources of containers, and says so in an annotation.
fn set_defaults(range: &Value, pod: &mut Value) {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for limit in
        range["spec"]["limits"].as_array().into_iter().flatten().filter(|it| it["type"] == "Container")
    {
        requests.extend(limit["defaultRequest"].as_object().cloned().unwrap_or_default());
        limits.extend(limit["default"].as_object().cloned().unwrap_or_default());
    }
    let mut told = Vec::new();
    for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            for (part, defaults, what) in [("requests", &requests, "request"), ("limits", &limits, "limit")] {
                let set = set_missing(&mut container["resources"], part, defaults);
                if !set.is_empty() {
                    told.push(format!("{} {what} for {word} {name}", set.join(", ")));
                }
            }
        }
    }
    if !told.is_empty() {
        let text = format!("LimitRanger plugin set: {}", told.join("; "));
        if !pod["metadata"]["annotations"].is_object() {
            pod["metadata"]["annotations"] = json!({});
        }
        pod["metadata"]["annotations"][ANNOTATION] = text.into();
    }
}

/// Sets the resources that a container does not specify, and returns their sorted names.
fn set_missing(resources: &mut Value, part: &str, defaults: &Map) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in defaults {
        if resources[part].get(name).is_none() {
            resources[part][name] = amount.clone();
            set.push(name.to_string());
        }
    }
    set
}

/// The violations of one limit by a pod.
fn check_pod(limit: &Value, pod: &Value) -> Vec<String> {
    let kind = limit["type"].as_str().unwrap_or_default();
    match kind {
        "Container" => {
            let lists = ["containers", "initContainers"];
            let containers = lists.iter().flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
            containers
                .flat_map(|container| {
                    let resources = &container["resources"];
                    let of = |part: &str| read(Some(&resources[part]));
                    check(limit, kind, &of("requests"), &of("limits"))
                })
                .collect()
        }
        "Pod" => {
            let of = |part| PodResources::of_spec(&pod["spec"], part).without_overhead();
            check(limit, kind, &of(Part::Requests), &of(Part::Limits))
        }
        _ => Vec::new(),
    }
}

fn check_claim(limit: &Value, claim: &Value) -> Vec<String> {
    let kind = "PersistentVolumeClaim";
    if limit["type"] != kind {
        return Vec::new();
    }
    let requests = read(Some(&claim["spec"]["resources"]["requests"]));
    let mut errors: Vec<String> = read(Some(&limit["min"]))
        .iter()
        .filter_map(|(name, bound)| check_minimum(kind, name, bound, requests.get(name), None))
        .collect();
    errors.extend(read(Some(&limit["max"])).iter().filter_map(|(name, bound)| {
        let Some(asked) = requests.get(name) else {
            return Some(format!("maximum {name} usage per {kind} is {bound}.  No request is specified"));
        };
        let exceeds = asked > bound;
        exceeds.then(|| format!("maximum {name} usage per {kind} is {bound}, but request is {asked}"))
    }));
    errors
}

fn check(limit: &Value, kind: &str, requests: &Amounts, limits: &Amounts) -> Vec<String> {
    let mut errors = Vec::new();
    for (name, bound) in read(Some(&limit["min"])) {
        errors.extend(check_minimum(kind, &name, &bound, requests.get(&name), limits.get(&name)));
    }
    for (name, bound) in read(Some(&limit["max"])) {
        errors.extend(check_maximum(kind, &name, &bound, requests.get(&name), limits.get(&name)));
    }
    for (name, bound) in read(Some(&limit["maxLimitRequestRatio"])) {
        errors.extend(check_ratio(kind, &name, &bound, requests.get(&name), limits.get(&name)));
    }
    errors
}

fn check_minimum(
    kind: &str,
    name: &str,
    bound: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let rule = format!("minimum {name} usage per {kind} is {bound}");
    match (request, limit) {
        (None, _) => Some(format!("{rule}.  No request is specified")),
        (Some(request), _) if request < bound => Some(format!("{rule}, but request is {request}")),
        (_, Some(limit)) if limit < bound => Some(format!("{rule}, but limit is {limit}")),
        _ => None,
    }
}

fn check_maximum(
    kind: &str,
    name: &str,
    bound: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let rule = format!("maximum {name} usage per {kind} is {bound}");
    match (request, limit) {
        (_, None) => Some(format!("{rule}.  No limit is specified")),
        (_, Some(limit)) if limit > bound => Some(format!("{rule}, but limit is {limit}")),
        (Some(request), _) if request > bound => Some(format!("{rule}, but request is {request}")),
        _ => None,
    }
}

fn check_ratio(
    kind: &str,
    name: &str,
    bound: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let rule = format!("{name} max limit to request ratio per {kind} is {bound}");
    let Some(request) = request.filter(|it| !it.is_zero()) else {
        return Some(format!("{rule}, but no request is specified or request is 0"));
    };
    let Some(limit) = limit.filter(|it| !it.is_zero()) else {
        return Some(format!("{rule}, but no limit is specified or limit is 0"));
    };
    // In thousandths if all values fit.
    let fits = [request, limit, bound].iter().all(|it| it.value() <= MILLI_MAX);
    let number = |it: &Quantity| if fits { it.milli_value() as f64 } else { it.value() as f64 };
    let ratio = number(limit) / number(request);
    let most =
        if bound.value() <= MILLI_MAX { bound.milli_value() as f64 / 1000.0 } else { bound.value() as f64 };
    (ratio > most).then(|| format!("{rule}, but provided ratio is {ratio:.6}"))
}
