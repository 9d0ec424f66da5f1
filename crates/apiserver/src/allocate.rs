//! Allocation of cluster IPs and node ports to services.
//!
//! The allocator reads the services once, when the server starts, and follows every write from then on. It
//! holds all allocations in memory.

mod families;
mod pool;

use std::net::Ipv4Addr;

use evenkeel_env::Env;
use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::{Value, json};
use evenkeel_store::{Range, Store};
use parking_lot::Mutex;

use self::pool::Pool;
use crate::registry::storage_prefix;
use crate::storage;
use crate::{Header, bootstrap};

/// The range of node ports.
const NODE_PORTS: std::ops::RangeInclusive<u32> = 30000..=32767;

/// The allocated addresses and ports.
#[derive(Debug)]
struct Taken {
    addresses: Pool,
    ports: Pool,
}

impl Default for Taken {
    fn default() -> Self {
        let (first, count) = range();
        let ports = Pool::new(*NODE_PORTS.start(), NODE_PORTS.end() - NODE_PORTS.start() + 1);
        Self { addresses: Pool::new(first, count), ports }
    }
}

/// Allocates cluster IPs and node ports.
#[derive(Debug, Default)]
pub(crate) struct Allocator {
    taken: Mutex<Taken>,
}

/// The allocations of a write that is not committed yet; dropping the reservation releases them.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    allocator: &'a Allocator,
    addresses: Vec<u32>,
    ports: Vec<u32>,
}

impl Reservation<'_> {
    /// Keeps the allocations, because the write was committed.
    pub(crate) fn keep(mut self) {
        self.addresses.clear();
        self.ports.clear();
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut taken = self.allocator.taken.lock();
        self.addresses.iter().for_each(|address| taken.addresses.release(*address));
        self.ports.iter().for_each(|port| taken.ports.release(*port));
    }
}

impl Allocator {
    /// Creates an allocator that knows the allocations of all services in the store.
    pub(crate) fn load(store: &Store<Header>) -> Self {
        let allocator = Self::default();
        let range = Range { prefix: storage_prefix("", "services"), ..Range::default() };
        for entry in store.range(&range).map(|page| page.entries).unwrap_or_default() {
            if let Some(service) = storage::read_or_skip(&entry) {
                allocator.note(&service);
            }
        }
        allocator
    }

    /// Adds the allocations of a service.
    pub(crate) fn note(&self, service: &Value) {
        let mut taken = self.taken.lock();
        for address in addresses(service) {
            taken.addresses.take(address);
        }
        for port in ports(service) {
            taken.ports.take(port);
        }
    }

    /// Releases the allocations of a service, except for those that its new version still has.
    pub(crate) fn release(&self, old: &Value, new: Option<&Value>) {
        let (kept_addresses, kept_ports) = new.map(|it| (addresses(it), ports(it))).unwrap_or_default();
        let mut taken = self.taken.lock();
        for address in addresses(old).into_iter().filter(|it| !kept_addresses.contains(it)) {
            taken.addresses.release(address);
        }
        for port in ports(old).into_iter().filter(|it| !kept_ports.contains(it)) {
            taken.ports.release(port);
        }
    }

    /// Allocates what a service needs and does not have yet. `old` is the stored service.
    pub(crate) fn assign(
        &self,
        env: &Env,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<Reservation<'_>, Vec<FieldError>> {
        let mut reservation = Reservation { allocator: self, addresses: Vec::new(), ports: Vec::new() };
        if service["spec"]["type"] == "ExternalName" {
            return Ok(reservation);
        }
        families::settle(service, old)?;
        self.assign_address(env, service, old, &mut reservation)?;
        self.assign_ports(env, service, old, &mut reservation)?;
        Ok(reservation)
    }

    fn assign_address(
        &self,
        env: &Env,
        service: &mut Value,
        old: Option<&Value>,
        reservation: &mut Reservation<'_>,
    ) -> Result<(), Vec<FieldError>> {
        let given = service["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
        if given == "None" {
            service["spec"]["clusterIPs"] = json!(["None"]);
            return Ok(());
        }
        let had = old.map(addresses).unwrap_or_default();
        let mut taken = self.taken.lock();
        let address = if given.is_empty() {
            taken.addresses.take_free(env).map_err(|why| {
                vec![FieldError::internal(
                    "spec.clusterIPs",
                    format!("failed to allocate a serviceIP: {why}"),
                )]
            })?
        } else {
            let refuse = |why: &str| {
                let value = json!([given.clone()]);
                let why = format!("failed to allocate IP {given}: {why}");
                vec![FieldError::invalid("spec.clusterIPs", value, why)]
            };
            // Addresses of other families are not managed.
            let Ok(address) = given.parse::<Ipv4Addr>() else { return Ok(()) };
            let address = u32::from(address);
            if had.contains(&address) {
                return Ok(());
            }
            if !taken.addresses.contains(address) {
                return Err(refuse(&format!(
                    "the provided IP ({given}) is not in the valid range. The range of valid IPs is {}",
                    bootstrap::SERVICE_CIDR
                )));
            }
            if !taken.addresses.take(address) {
                return Err(refuse("provided IP is already allocated"));
            }
            address
        };
        reservation.addresses.push(address);
        let text = Ipv4Addr::from(address).to_string();
        service["spec"]["clusterIPs"] = json!([text]);
        service["spec"]["clusterIP"] = text.into();
        Ok(())
    }

    fn assign_ports(
        &self,
        env: &Env,
        service: &mut Value,
        old: Option<&Value>,
        reservation: &mut Reservation<'_>,
    ) -> Result<(), Vec<FieldError>> {
        let kind = service["spec"]["type"].as_str().unwrap_or_default().to_owned();
        let balanced = kind == "LoadBalancer" && service["spec"]["allocateLoadBalancerNodePorts"] != false;
        let wants = kind == "NodePort" || balanced;
        let had = old.map(ports).unwrap_or_default();
        let mut taken = self.taken.lock();
        let local = kind == "LoadBalancer" && service["spec"]["externalTrafficPolicy"] == "Local";
        let mut own: Vec<u32> = Vec::new();
        for (index, port) in
            service.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten().enumerate()
        {
            let given = port["nodePort"].as_i64().unwrap_or_default();
            if given == 0 && !wants {
                continue;
            }
            let refuse =
                |why: &str| vec![FieldError::invalid(format!("spec.ports[{index}].nodePort"), given, why)];
            let given_port = u32::try_from(given).unwrap_or(u32::MAX);
            let chosen = match given_port {
                0 => taken.ports.take_free(env).map_err(|why| {
                    vec![FieldError::internal(format!("spec.ports[{index}].nodePort"), why)]
                })?,
                port if !taken.ports.contains(port) => {
                    return Err(refuse(
                        "provided port is not in the valid range. The range of valid ports is 30000-32767",
                    ));
                }
                port if had.contains(&port) || own.contains(&port) => continue,
                port if !taken.ports.take(port) => return Err(refuse("provided port is already allocated")),
                port => port,
            };
            own.push(chosen);
            reservation.ports.push(chosen);
            port["nodePort"] = chosen.into();
        }
        if local && service["spec"]["healthCheckNodePort"].as_i64().unwrap_or_default() == 0 {
            let free = taken.ports.take_free(env);
            let port = free.map_err(|why| vec![FieldError::internal("spec.healthCheckNodePort", why)])?;
            reservation.ports.push(port);
            service["spec"]["healthCheckNodePort"] = port.into();
        }
        Ok(())
    }
}

/// Keeps the allocations of the old version that an update leaves out.
pub(crate) fn keep_allocated(new: &mut Value, old: &Value) {
    let Some(new) = new.get_mut("spec") else { return };
    let old = &old["spec"];
    let has_address = |kind: &Value| matches!(kind.as_str(), Some("ClusterIP" | "NodePort" | "LoadBalancer"));
    if has_address(&new["type"]) && has_address(&old["type"]) {
        let empty = new["clusterIP"].as_str().unwrap_or_default().is_empty();
        if empty && new["clusterIPs"].as_array().is_none_or(Vec::is_empty) {
            crate::members::set_or_remove(new, "clusterIP", old["clusterIP"].clone());
            crate::members::set_or_remove(new, "clusterIPs", old["clusterIPs"].clone());
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if new[field].is_null() {
                crate::members::set_or_remove(new, field, old[field].clone());
            }
        }
    }
    let has_ports = |kind: &Value| matches!(kind.as_str(), Some("NodePort" | "LoadBalancer"));
    if has_ports(&new["type"]) && has_ports(&old["type"]) {
        let same = |a: &Value, b: &Value| a["port"] == b["port"] && a["protocol"] == b["protocol"];
        for port in new.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let before = old["ports"].as_array().into_iter().flatten().find(|it| same(it, port));
            if port["nodePort"].as_i64().unwrap_or_default() == 0
                && let Some(given) = before.and_then(|it| it.get("nodePort"))
            {
                port["nodePort"] = given.clone();
            }
        }
        if new["healthCheckNodePort"].is_null() && new["externalTrafficPolicy"] == "Local" {
            crate::members::set_or_remove(new, "healthCheckNodePort", old["healthCheckNodePort"].clone());
        }
    }
}

fn addresses(service: &Value) -> Vec<u32> {
    let texts = service["spec"]["clusterIPs"].as_array().into_iter().flatten();
    texts.filter_map(|it| it.as_str()?.parse::<Ipv4Addr>().ok()).map(u32::from).collect()
}

fn ports(service: &Value) -> Vec<u32> {
    let spec = &service["spec"];
    let ports = spec["ports"].as_array().into_iter().flatten().map(|it| &it["nodePort"]);
    let ports = ports.chain([&spec["healthCheckNodePort"]]);
    ports.filter_map(|it| u32::try_from(it.as_i64()?).ok()).filter(|it| *it > 0).collect()
}

/// The first usable address of the range, and the number of usable addresses, without network and broadcast
/// address.
fn range() -> (u32, u32) {
    let (base, bits) = bootstrap::SERVICE_CIDR.split_once('/').unwrap_or(("10.96.0.0", "12"));
    let base = base.parse::<Ipv4Addr>().map_or(0x0a60_0000, u32::from);
    let bits: u32 = bits.parse().unwrap_or(12);
    (base + 1, (1 << (32 - bits)) - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Value {
        json!({"spec": spec})
    }

    #[tokio::test]
    async fn an_address_is_given_once_and_taken_back() {
        let (allocator, env) = (Allocator::default(), Env::seeded(1));
        let mut first = service(json!({"type": "NodePort", "ports": [{"port": 80}]}));
        allocator.assign(&env, &mut first, None).unwrap().keep();
        let address = first["spec"]["clusterIP"].clone();
        let mut again = service(json!({"type": "ClusterIP", "clusterIP": address}));
        assert!(allocator.assign(&env, &mut again, None).is_err());
        allocator.release(&first, None);
        allocator.assign(&env, &mut again, None).unwrap().keep();
        assert_eq!(again["spec"]["clusterIPs"], json!([address]));
    }

    #[tokio::test]
    async fn what_is_not_kept_is_given_back() {
        let (allocator, env) = (Allocator::default(), Env::seeded(1));
        let wanted =
            service(json!({"type": "NodePort", "clusterIP": "10.96.0.9", "ports": [{"nodePort": 30001}]}));
        drop(allocator.assign(&env, &mut wanted.clone(), None).unwrap());
        assert!(allocator.assign(&env, &mut wanted.clone(), None).is_ok());
    }
}
