//! The resources of a pod as a whole.

use super::super::resources::requirements;
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::pod_resources::{Amounts, Part, PodResources, read};
use crate::read::Read;
use crate::resource_names::is_huge_page;

/// Validates the resources of a pod as a whole. `claims` are the names of its resource claims.
pub(super) fn check(path: &Path<'_>, spec: &Value, claims: &[&str], errors: &mut Vec<FieldError>) {
    let Some(resources) = spec.at("resources") else { return };
    let path = path.child("resources");
    if spec.at("os").str("name") == "windows" {
        errors.push(FieldError::forbidden(path, "may not be set for a windows pod"));
        return;
    }
    if resources.has("claims") {
        let detail = "claims may not be set for Resources at pod-level";
        errors.push(FieldError::forbidden(path.child("claims"), detail));
    }
    requirements(&path, Some(resources), claims, errors);
    at_least(&path.child("requests"), spec, Part::Requests, |_| true, errors);
    at_least(&path.child("limits"), spec, Part::Limits, is_huge_page, errors);
    containers(&path, spec, &read(resources.at("limits")), errors);
}

/// Validates that the amounts of the pod are not below those of all its containers together.
fn at_least(
    path: &Path<'_>,
    spec: &Value,
    part: Part,
    counts: impl Fn(&str) -> bool,
    errors: &mut Vec<FieldError>,
) {
    let what = match part {
        Part::Requests => "requests",
        Part::Limits => "limits",
    };
    let amounts = PodResources::of_spec(spec, part);
    for (name, sum) in amounts.of_containers() {
        if let Some(own) = amounts.pod.get(&name).filter(|own| counts(&name) && sum > **own) {
            let detail = format!("must be greater than or equal to aggregate container {what} of {sum}");
            errors.push(FieldError::invalid(path.key(&name), own.to_string(), detail));
        }
    }
}

/// Validates that no container has a higher limit than the pod.
fn containers(path: &Path<'_>, spec: &Value, limits: &Amounts, errors: &mut Vec<FieldError>) {
    let list = path.child("containers");
    for (index, container) in spec.list("containers").iter().enumerate() {
        for (name, amount) in read(container.at("resources").at("limits")) {
            if let Some(limit) = limits.get(&name).filter(|limit| amount > **limit) {
                let at = list.index(index);
                let at = at.key(&name);
                let detail = format!("must be less than or equal to pod limits of {limit}");
                errors.push(FieldError::invalid(at.child("limits"), amount.to_string(), detail));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn containers_fit_into_the_resources_of_their_pod() {
        let told = |spec: Value| {
            let mut errors = Vec::new();
            check(&Path::new("spec"), &spec, &[], &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}});
        let pod = |request: &str| {
            json!({"resources": {"requests": {"cpu": request}, "limits": {"cpu": "3"}},
                "containers": [container("1"), container("2")]})
        };
        assert_eq!(told(pod("3")), [""; 0]);
        assert_eq!(
            told(pod("2")),
            [
                r#"spec.resources.requests[cpu]: Invalid value: "2": must be greater than or equal to aggregate container requests of 3"#
            ]
        );
        let mut high = pod("3");
        high["containers"] = json!([{"resources": {"limits": {"cpu": "4"}}}]);
        high["resources"]["claims"] = json!([]);
        assert_eq!(
            told(high),
            [
                "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level",
                r#"spec.resources.containers[0][cpu].limits: Invalid value: "4": must be less than or equal to pod limits of 3"#
            ]
        );
        let windows = json!({"os": {"name": "windows"}, "resources": {}});
        assert_eq!(told(windows), ["spec.resources: Forbidden: may not be set for a windows pod"]);
    }
}
