// SPDX-License-Identifier: Apache-2.0
//! The configuration as it is logged: the names of upstream's log, so that existing searches find them.

use serde_json::{Map, Value};

use redirect::config::{Config, Dns};
use redirect::ruleset::Id;

use crate::flag::{self, Flag};
use crate::given::FlagValues;

/// Flags with their names in the log.
static TEXTS: [(&str, &Flag); 15] = [
    ("PROXY_PORT", &flag::ENVOY_PORT),
    ("INBOUND_CAPTURE_PORT", &flag::INBOUND_CAPTURE_PORT),
    ("INBOUND_TUNNEL_PORT", &flag::INBOUND_TUNNEL_PORT),
    ("INBOUND_INTERCEPTION_MODE", &flag::MODE),
    ("INBOUND_TPROXY_MARK", &flag::TPROXY_MARK),
    ("INBOUND_TPROXY_ROUTE_TABLE", &flag::TPROXY_ROUTE_TABLE),
    ("INBOUND_PORTS_INCLUDE", &flag::INBOUND_PORTS),
    ("INBOUND_PORTS_EXCLUDE", &flag::LOCAL_EXCLUDE_PORTS),
    ("OUTBOUND_IPRANGES_INCLUDE", &flag::SERVICE_CIDR),
    ("OUTBOUND_IPRANGES_EXCLUDE", &flag::SERVICE_EXCLUDE_CIDR),
    ("OUTBOUND_PORTS_INCLUDE", &flag::OUTBOUND_PORTS),
    ("OUTBOUND_PORTS_EXCLUDE", &flag::OUTBOUND_PORTS_EXCLUDE),
    ("KUBE_VIRT_INTERFACES", &flag::KUBE_VIRT_INTERFACES),
    ("EXCLUDE_INTERFACES", &flag::EXCLUDE_INTERFACES),
    ("NETWORK_NAMESPACE", &flag::NETWORK_NAMESPACE),
];

static SWITCHES: [(&str, &Flag); 8] = [
    ("DRY_RUN", &flag::DRY_RUN),
    ("REDIRECT_DNS", &flag::REDIRECT_DNS),
    ("CAPTURE_ALL_DNS", &flag::CAPTURE_ALL_DNS),
    ("DROP_INVALID", &flag::DROP_INVALID),
    ("DUAL_STACK", &flag::DUAL_STACK),
    ("CLEANUP_ONLY", &flag::CLEANUP_ONLY),
    ("RECONCILE", &flag::RECONCILE),
    ("FORCE_APPLY", &flag::FORCE_APPLY),
];

#[must_use]
pub fn json(given: &FlagValues, config: &Config) -> Value {
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
    for (name, flag) in TEXTS {
        put(name, given.text(flag).into());
    }
    for (name, flag) in SWITCHES {
        put(name, given.is_on(flag).into());
    }
    put("PROXY_UID", ids(&config.proxy_uids).into());
    put("PROXY_GID", ids(&config.proxy_gids).into());
    put("ENABLE_IPV6", config.ipv6.into());
    put("HOST_IPV4_LOOPBACK_CIDR", config.loopback.to_string().into());
    if let Dns::Servers { v4, v6 } = &config.dns {
        put("DNS_SERVERS_V4", v4.iter().map(ToString::to_string).collect());
        put("DNS_SERVERS_V6", v6.iter().map(ToString::to_string).collect());
    }
    Value::Object(all)
}

fn ids(ids: &[Id]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
