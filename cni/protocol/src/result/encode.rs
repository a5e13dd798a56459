// SPDX-License-Identifier: Apache-2.0
//! A result written as any version. An unknown key is kept unless the version gives it a meaning.

use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use serde_json::{Map, Serializer, Value};

use super::{CniResult, Dns, Family, Interface, Ip, ResultError, Route};
use crate::version::CniVersion;

/// See [`CniResult::encode`].
pub(super) fn encode(result: &CniResult, version: CniVersion) -> Result<String, ResultError> {
    let family = Family::from(version);
    let mut object = match family {
        Family::Single => single(result, version)?,
        Family::Listed | Family::Current => listed(result, family),
    };
    let dns = dns(&result.dns);
    // Before 1.0 an empty `dns` is written, too, as every plugin of the time does.
    if family != Family::Current || !dns.is_empty() {
        object.insert("dns".to_owned(), dns.into());
    }
    object.insert("cniVersion".to_owned(), version.as_str().into());
    pretty(&object)
}

fn pretty(object: &Map<String, Value>) -> Result<String, ResultError> {
    let mut out = Vec::new();
    object.serialize(&mut Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(b"    ")))?;
    out.push(b'\n');
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// 0.1 and 0.2: the first address of each family, with that family's routes.
fn single(result: &CniResult, version: CniVersion) -> Result<Map<String, Value>, ResultError> {
    let mut object = unknown(&result.extra, &["cniVersion", "ip4", "ip6", "dns"]);
    let families = [("ip4", true), ("ip6", false)];
    for (key, wants_ipv4) in families {
        let Some(ip) = result.ips.iter().find(|ip| ip.address.addr.is_ipv4() == wants_ipv4) else { continue };
        let mut entry = unknown(&ip.extra, &["ip", "gateway", "routes"]);
        entry.insert("ip".to_owned(), ip.address.to_string().into());
        put(&mut entry, "gateway", gateway(ip));
        let routes = result.routes.iter().filter(|r| r.dst.addr.is_ipv4() == wants_ipv4);
        put_list(&mut entry, "routes", routes.map(route).collect());
        object.insert(key.to_owned(), entry.into());
    }
    if families.iter().any(|(key, _)| object.contains_key(*key)) {
        Ok(object)
    } else {
        Err(ResultError::NoAddress(version))
    }
}

/// 0.3 and later.
fn listed(result: &CniResult, family: Family) -> Map<String, Value> {
    let mut object = unknown(&result.extra, &["cniVersion", "interfaces", "ips", "routes", "dns"]);
    put_list(&mut object, "interfaces", result.interfaces.iter().map(|i| interface(i, family)).collect());
    put_list(&mut object, "ips", result.ips.iter().map(|ip| listed_ip(ip, family)).collect());
    put_list(&mut object, "routes", result.routes.iter().map(route).collect());
    object
}

fn interface(interface: &Interface, family: Family) -> Value {
    let known: &[_] = match family {
        Family::Current => &["name", "mac", "mtu", "sandbox", "socketPath", "pciID"],
        Family::Single | Family::Listed => &["name", "mac", "sandbox"],
    };
    let mut object = unknown(&interface.extra, known);
    object.insert("name".to_owned(), interface.name.as_str().into());
    put_text(&mut object, "mac", &interface.mac);
    put(&mut object, "mtu", not_zero(interface.mtu));
    put_text(&mut object, "sandbox", &interface.sandbox);
    put_text(&mut object, "socketPath", &interface.socket_path);
    put_text(&mut object, "pciID", &interface.pci_id);
    object.into()
}

fn listed_ip(ip: &Ip, family: Family) -> Value {
    let known: &[_] = match family {
        Family::Current => &["address", "gateway", "interface"],
        Family::Single | Family::Listed => &["address", "gateway", "interface", "version"],
    };
    let mut object = unknown(&ip.extra, known);
    if family == Family::Listed {
        let version = if ip.address.addr.is_ipv4() { "4" } else { "6" };
        object.insert("version".to_owned(), version.into());
    }
    object.insert("address".to_owned(), ip.address.to_string().into());
    put(&mut object, "gateway", gateway(ip));
    put(&mut object, "interface", ip.interface);
    object.into()
}

fn gateway(ip: &Ip) -> Option<String> {
    ip.gateway.map(|gateway| gateway.to_string())
}

fn route(route: &Route) -> Value {
    let mut object = unknown(&route.extra, &["dst", "gw", "mtu", "advmss", "priority", "table", "scope"]);
    object.insert("dst".to_owned(), route.dst.to_string().into());
    put(&mut object, "gw", route.gw.map(|gw| gw.to_string()));
    put(&mut object, "mtu", not_zero(route.mtu));
    put(&mut object, "advmss", not_zero(route.advmss));
    put(&mut object, "priority", not_zero(route.priority));
    put(&mut object, "table", route.table);
    put(&mut object, "scope", route.scope);
    object.into()
}

fn dns(dns: &Dns) -> Map<String, Value> {
    let mut object = unknown(&dns.extra, &["nameservers", "domain", "search", "options"]);
    let list = |items: &[String]| items.iter().map(|item| item.as_str().into()).collect();
    put_list(&mut object, "nameservers", list(&dns.nameservers));
    put_text(&mut object, "domain", &dns.domain);
    put_list(&mut object, "search", list(&dns.search));
    put_list(&mut object, "options", list(&dns.options));
    object
}

/// Keys of `extra` that are unknown to the version.
fn unknown(extra: &Map<String, Value>, known: &[&str]) -> Map<String, Value> {
    let is_unknown = |key: &str| !known.iter().any(|k| k.eq_ignore_ascii_case(key));
    extra.iter().filter(|(key, _)| is_unknown(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn put<T: Into<Value>>(object: &mut Map<String, Value>, key: &str, value: Option<T>) {
    if let Some(value) = value {
        object.insert(key.to_owned(), value.into());
    }
}

fn put_text(object: &mut Map<String, Value>, key: &str, text: &str) {
    put(object, key, Some(text).filter(|text| !text.is_empty()));
}

fn put_list(object: &mut Map<String, Value>, key: &str, items: Vec<Value>) {
    put(object, key, Some(items).filter(|items| !items.is_empty()));
}

/// Zero means "not set" in `mtu`, `advmss` and `priority`.
fn not_zero(number: i64) -> Option<i64> {
    Some(number).filter(|number| *number != 0)
}
