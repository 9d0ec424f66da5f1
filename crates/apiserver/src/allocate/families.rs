//! IP families of services, on a cluster that supports IPv4 only.

use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::{Value, json};

/// The IP family that the cluster supports.
const FAMILY: &str = "IPv4";
const OTHER_FAMILY: &str = "IPv6";

/// Sets `ipFamilyPolicy` and `ipFamilies`, or refuses what the cluster does not support. `old` is the stored
/// service.
pub(super) fn settle(service: &mut Value, old: Option<&Value>) -> Result<(), Vec<FieldError>> {
    let spec = &mut service["spec"];
    let headless = spec["clusterIP"] == "None";
    let loose = headless && spec["selector"].as_object().is_none_or(|it| it.is_empty());
    if spec["ipFamilyPolicy"].is_null() {
        spec["ipFamilyPolicy"] = match old.map(|old| &old["spec"]["ipFamilyPolicy"]) {
            Some(policy) if !policy.is_null() => policy.clone(),
            _ if loose => "RequireDualStack".into(),
            _ => "SingleStack".into(),
        };
    }
    let single = spec["ipFamilyPolicy"] == "SingleStack";
    if let Some(old) = old.filter(|_| single) {
        keep_first(spec, &old["spec"]);
    }
    infer(spec, single)?;
    if loose {
        set_families_without_selector(spec, single);
        return Ok(());
    }
    refuse_missing(spec)?;
    if list(spec, "ipFamilies").is_empty() {
        spec["ipFamilies"] = json!([FAMILY]);
    }
    Ok(())
}

fn list<'a>(spec: &'a Value, field: &str) -> &'a [Value] {
    spec[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Truncates both lists to one entry if an update returns to a single family and leaves the lists unchanged.
fn keep_first(spec: &mut Value, old: &Value) {
    for field in ["clusterIPs", "ipFamilies"] {
        if spec[field] == old[field]
            && let Some(items) = spec[field].as_array_mut()
        {
            items.truncate(1);
        }
    }
}

/// Infers the families from the addresses if the service does not name them.
fn infer(spec: &mut Value, single: bool) -> Result<(), Vec<FieldError>> {
    let mut errors = Vec::new();
    if single {
        for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
            if list(spec, field).len() == 2 {
                let why = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                );
                errors.push(FieldError::invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"].clone(), why));
            }
        }
    }
    let addresses = list(spec, "clusterIPs").to_vec();
    let mut families = list(spec, "ipFamilies").to_vec();
    for (index, address) in addresses.iter().enumerate().take_while(|(_, address)| **address != "None") {
        if index < families.len() {
            continue;
        }
        if address.as_str().is_some_and(|address| address.contains(':')) {
            let why = format!("{OTHER_FAMILY} is not configured on this cluster");
            errors.push(FieldError::invalid(format!("spec.clusterIPs[{index}]"), json!(addresses), why));
        } else {
            families.push(FAMILY.into());
        }
    }
    if !families.is_empty() {
        spec["ipFamilies"] = families.into();
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Sets the families of a headless service without a selector. Its endpoints are managed by the user, so it
/// may have both families on any cluster.
fn set_families_without_selector(spec: &mut Value, single: bool) {
    let mut families = list(spec, "ipFamilies").to_vec();
    if families.is_empty() {
        families.push(FAMILY.into());
    }
    if families.len() < 2 && !single {
        let other = if families[0] == FAMILY { OTHER_FAMILY } else { FAMILY };
        families.push(other.into());
    }
    spec["ipFamilies"] = families.into();
}

fn refuse_missing(spec: &Value) -> Result<(), Vec<FieldError>> {
    let mut errors = Vec::new();
    if spec["ipFamilyPolicy"] == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"].clone(), why));
    }
    for (index, family) in list(spec, "ipFamilies").iter().enumerate().filter(|(_, it)| **it != FAMILY) {
        let path = format!("spec.ipFamilies[{index}]");
        errors.push(FieldError::invalid(path, family.clone(), "not configured on this cluster"));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(spec: Value) -> Result<Value, Vec<String>> {
        let mut service = json!({"spec": spec});
        match settle(&mut service, None) {
            Ok(()) => Ok(json!([service["spec"]["ipFamilyPolicy"], service["spec"]["ipFamilies"]])),
            Err(errors) => Err(errors.iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn one_family_unless_the_service_is_loose() {
        assert_eq!(settled(json!({})), Ok(json!(["SingleStack", ["IPv4"]])));
        assert_eq!(
            settled(json!({"ipFamilyPolicy": "PreferDualStack"})),
            Ok(json!(["PreferDualStack", ["IPv4"]]))
        );
        let loose = json!({"clusterIP": "None", "clusterIPs": ["None"]});
        assert_eq!(settled(loose), Ok(json!(["RequireDualStack", ["IPv4", "IPv6"]])));
    }

    #[test]
    fn what_the_cluster_lacks_is_refused() {
        let refusal = |why: &str| Err(vec![why.to_owned()]);
        assert_eq!(
            settled(json!({"ipFamilies": ["IPv6"]})),
            refusal("spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster")
        );
        assert_eq!(
            settled(json!({"ipFamilyPolicy": "RequireDualStack"})),
            refusal(
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for \
                 dual-stack services"
            )
        );
        assert_eq!(
            settled(json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]})),
            refusal(
                "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster"
            )
        );
    }
}
