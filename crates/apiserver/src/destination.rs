//! What listens on a port that a request names: the pod behind a Service, or a pod.

use std::sync::Arc;

use evenkeel_schema::json::Value;
use evenkeel_store::{Entry, Range};

use crate::node_api::Destination;
use crate::registry::storage_prefix;
use crate::services::Services;
use crate::status::{Result, Status, quote};
use crate::{Header, storage};

/// The label of an EndpointSlice with the name of its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Finds what answers for a port of a Service, which is given by its number or name; empty for the port without a name.
///
/// # Errors
/// Fails if the Service does not exist, or if no ready endpoint answers for the port.
pub(crate) fn of_service(
    services: &Services,
    namespace: &str,
    name: &str,
    port: &str,
) -> Result<Destination> {
    let service = read(services, "", "services", namespace, name)?;
    let (number, port_name) = service_port(&service, name, port)?;
    let found =
        |pod| Destination::Service { namespace: namespace.into(), name: name.into(), port: number, pod };
    let prefix = format!("{}{namespace}/", storage_prefix("discovery.k8s.io", "endpointslices"));
    let page = services.store.range(&Range { prefix, ..Range::default() }).map_err(Status::internal)?;
    let own = page.entries.iter().filter(|entry| entry.header.label(SERVICE_NAME) == Some(name));
    for slice in own.filter_map(|entry| storage::read::<Value>(entry).ok()) {
        let mut ports = slice["ports"].as_array().into_iter().flatten();
        let Some(target) = ports.find(|it| it["name"].as_str().unwrap_or_default() == port_name) else {
            continue;
        };
        let mut endpoints = slice["endpoints"].as_array().into_iter().flatten();
        let Some(ready) = endpoints.find(|it| it["conditions"]["ready"] != false) else { continue };
        let target = target["port"].as_u64().and_then(|port| u16::try_from(port).ok());
        let pod = match (ready["targetRef"]["kind"].as_str(), ready["targetRef"]["name"].as_str()) {
            (Some("Pod"), Some(pod)) => read(services, "", "pods", namespace, pod).ok().map(Arc::new),
            _ => None,
        };
        return Ok(found(pod.zip(target)));
    }
    Err(Status::unavailable(format!("no endpoints available for service {}", quote(name))))
}

/// The number and the name of a Service's port.
fn service_port(service: &Value, name: &str, port: &str) -> Result<(u16, String)> {
    let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let wanted: Option<u64> = port.parse().ok();
    let found = ports.find(|it| match wanted {
        Some(number) => it["port"].as_u64() == Some(number),
        None => it["name"].as_str().unwrap_or_default() == port,
    });
    let number = found.and_then(|it| u16::try_from(it["port"].as_u64()?).ok());
    match (found, number) {
        (Some(found), Some(number)) => Ok((number, found["name"].as_str().unwrap_or_default().to_owned())),
        _ if wanted.is_some() => {
            Err(Status::unavailable(format!("no service port {port} found for service {}", quote(name))))
        }
        _ => Err(Status::unavailable(format!("no endpoints available for service {}", quote(name)))),
    }
}

/// Finds a port of a pod by its namespace, its subdomain and its name.
///
/// # Errors
/// Fails if there is no such pod, or if it is not ready.
pub(crate) fn of_pod(
    services: &Services,
    (namespace, subdomain, name): (&str, &str, &str),
    port: u16,
) -> Result<Destination> {
    let pod = read(services, "", "pods", namespace, name)?;
    if pod["spec"]["subdomain"] != subdomain {
        return Err(Status::not_found("", "pods", name));
    }
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    if !conditions.any(|it| it["type"] == "Ready" && it["status"] == "True") {
        return Err(Status::unavailable(format!("pod {name} is not ready")));
    }
    Ok(Destination::Pod(Arc::new(pod), port))
}

/// Finds the pod or Service with an IP address, and what answers for a port of it.
///
/// # Errors
/// Fails if nothing has the address.
pub(crate) fn of_address(services: &Services, address: &str, port: u16) -> Result<Destination> {
    for pod in all(services, "pods")? {
        let pod: Value = storage::read(&pod)?;
        // Pods in the network of their node have its address.
        if pod["status"]["podIP"] == address && pod["spec"]["hostNetwork"] != true {
            return Ok(Destination::Pod(Arc::new(pod), port));
        }
    }
    for entry in all(services, "services")? {
        let service: Value = storage::read(&entry)?;
        if service["spec"]["clusterIP"] == address {
            return of_service(services, &entry.header.namespace, &entry.header.name, &port.to_string());
        }
    }
    Err(Status::unavailable(format!("nothing has the address {address}")))
}

fn all(services: &Services, plural: &str) -> Result<Vec<Arc<Entry<Header>>>> {
    let range = Range { prefix: storage_prefix("", plural), ..Range::default() };
    Ok(services.store.range(&range).map_err(Status::internal)?.entries)
}

fn read(services: &Services, group: &str, plural: &str, namespace: &str, name: &str) -> Result<Value> {
    let key = format!("{}{namespace}/{name}", storage_prefix(group, plural));
    let entry = services.store.get(&key).ok_or_else(|| Status::not_found(group, plural, name))?;
    storage::read(&entry)
}
