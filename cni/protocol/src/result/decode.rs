// SPDX-License-Identifier: Apache-2.0
//! A result of any version, read. What a version does not know stays in `extra`.

use std::net::IpAddr;

use serde_json::Value;

use super::{Cidr, CniResult, Dns, Family, Interface, Ip, ResultError, Route};
use crate::json::{Fields, JsonError, whole};
use crate::version::CniVersion;

/// See [`CniResult::decode`].
pub(super) fn decode(value: Value, version: CniVersion) -> Result<CniResult, ResultError> {
    // Not `Fields::of`: a result is never null.
    let Value::Object(_) = value else { return Err(ResultError::NotAnObject) };
    let mut fields = Fields::of("result", value)?.unwrap_or_default();
    check_version(&fields.string("cniVersion")?, version)?;
    let mut result = CniResult { dns: dns(&mut fields)?, ..CniResult::default() };
    match version.into() {
        Family::Single => {
            for key in ["ip4", "ip6"] {
                if let Some(ip) = fields.object(key)? {
                    let (ip, routes) = single_ip(ip)?;
                    result.ips.push(ip);
                    result.routes.extend(routes);
                }
            }
        }
        family @ (Family::Listed | Family::Current) => {
            result.interfaces = fields.objects("interfaces", |i| interface(i, family))?.unwrap_or_default();
            result.ips = fields.objects("ips", |i| listed_ip(i, family))?.unwrap_or_default();
            result.routes = fields.objects("routes", route)?.unwrap_or_default();
        }
    }
    result.extra = fields.rest();
    Ok(result)
}

/// A result that names no version has that of its configuration: results before 1.0 need not name one.
fn check_version(named: &str, version: CniVersion) -> Result<(), ResultError> {
    if named.is_empty() {
        return Ok(());
    }
    let found: CniVersion = named.parse()?;
    if Family::from(found) == Family::from(version) {
        Ok(())
    } else {
        Err(ResultError::OtherVersion { found, wanted: version })
    }
}

/// `dns` of a result or of a configuration.
pub(crate) fn dns(fields: &mut Fields) -> Result<Dns, JsonError> {
    let Some(mut dns) = fields.object("dns")? else { return Ok(Dns::default()) };
    Ok(Dns {
        nameservers: dns.strings("nameservers")?.unwrap_or_default(),
        domain: dns.string("domain")?,
        search: dns.strings("search")?.unwrap_or_default(),
        options: dns.strings("options")?.unwrap_or_default(),
        extra: dns.rest(),
    })
}

fn interface(mut fields: Fields, family: Family) -> Result<Interface, ResultError> {
    let mut interface = Interface {
        name: fields.string("name")?,
        mac: fields.string("mac")?,
        sandbox: fields.string("sandbox")?,
        ..Interface::default()
    };
    // Before 1.0 these are unknown keys, which may hold anything; read where they hold what they mean today.
    let ours = |fits| family == Family::Current || fits;
    if ours(fields.holds("mtu", |v| whole(v).is_some())) {
        interface.mtu = fields.integer("mtu")?.unwrap_or_default();
    }
    if ours(fields.holds("socketPath", Value::is_string)) {
        interface.socket_path = fields.string("socketPath")?;
    }
    if ours(fields.holds("pciID", Value::is_string)) {
        interface.pci_id = fields.string("pciID")?;
    }
    interface.extra = fields.rest();
    Ok(interface)
}

fn listed_ip(mut fields: Fields, family: Family) -> Result<Ip, ResultError> {
    if family == Family::Listed {
        // Says no more than the address itself.
        fields.string("version")?;
    }
    Ok(Ip {
        address: cidr(&mut fields, "address")?,
        gateway: address(&mut fields, "gateway")?,
        interface: fields.integer("interface")?,
        extra: fields.rest(),
    })
}

/// `ip4` or `ip6`, with the routes that are inside it.
fn single_ip(mut fields: Fields) -> Result<(Ip, Vec<Route>), ResultError> {
    let routes = fields.objects("routes", route)?.unwrap_or_default();
    let ip = Ip {
        address: cidr(&mut fields, "ip")?,
        gateway: address(&mut fields, "gateway")?,
        interface: None,
        extra: fields.rest(),
    };
    Ok((ip, routes))
}

fn route(mut fields: Fields) -> Result<Route, ResultError> {
    Ok(Route {
        dst: cidr(&mut fields, "dst")?,
        gw: address(&mut fields, "gw")?,
        mtu: fields.integer("mtu")?.unwrap_or_default(),
        advmss: fields.integer("advmss")?.unwrap_or_default(),
        priority: fields.integer("priority")?.unwrap_or_default(),
        table: fields.integer("table")?,
        scope: fields.integer("scope")?,
        extra: fields.rest(),
    })
}

fn cidr(fields: &mut Fields, key: &'static str) -> Result<Cidr, ResultError> {
    Ok(fields.string(key)?.parse()?)
}

fn address(fields: &mut Fields, key: &'static str) -> Result<Option<IpAddr>, ResultError> {
    let text = fields.string(key)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(|address: IpAddr| Some(address.to_canonical())).map_err(|_| ResultError::Address(text))
}
