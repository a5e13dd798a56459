// SPDX-License-Identifier: Apache-2.0
//! Random JSON, results and pods.

use std::net::IpAddr;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use protocol::pod::{Container, EnvVar, Metadata, PodFacts, SecurityContext, Spec};
use protocol::result::{Cidr, CniResult, Dns, Interface, Ip, Route};
use protocol::version::{CniVersion, SUPPORTED};
use serde_json::{Map, Value};

pub(crate) fn version() -> impl Strategy<Value = CniVersion> {
    prop::sample::select(SUPPORTED.to_vec())
}

/// Any JSON, a few levels deep.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        "(10\\.0\\.0\\.1|fd00::1)(/[0-9]{1,3})?".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(key(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Any key, known ones among them, in any case.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z./-]{1,6}",
        "(cniVersion|name|CNIVERSION|interfaces|ips|IPS|ip4|ip6|ip|routes|dns|address|gateway|interface|version|dst|gw|mtu|Mtu)"
    ]
}

/// Unknown keys of any version, with any value.
fn extra() -> impl Strategy<Value = Map<String, Value>> {
    btree_map("x-[a-zA-Z0-9./]{0,6}", json(), 0..3).prop_map(|map| map.into_iter().collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IpFamily {
    V4,
    V6,
}

fn address(family: IpFamily) -> BoxedStrategy<IpAddr> {
    match family {
        IpFamily::V4 => any::<[u8; 4]>().prop_map(IpAddr::from).boxed(),
        IpFamily::V6 => any::<[u16; 8]>().prop_map(IpAddr::from).boxed(),
    }
}

fn cidr(family: IpFamily) -> impl Strategy<Value = Cidr> {
    let longest = if family == IpFamily::V4 { 32 } else { 128_u8 };
    (address(family), 0..=longest).prop_map(|(addr, prefix)| Cidr { addr, prefix })
}

fn family() -> impl Strategy<Value = IpFamily> {
    prop_oneof![Just(IpFamily::V4), Just(IpFamily::V6)]
}

fn ip(family: IpFamily) -> impl Strategy<Value = Ip> {
    (cidr(family), option::of(address(family)), option::of(any::<i64>()), extra())
        .prop_map(|(address, gateway, interface, extra)| Ip { address, gateway, interface, extra })
}

fn route(family: IpFamily) -> impl Strategy<Value = Route> {
    let numbers =
        (0..9000_i64, 0..9000_i64, any::<i64>(), option::of(any::<i64>()), option::of(any::<i64>()));
    (cidr(family), option::of(address(family)), numbers, extra()).prop_map(
        |(dst, gw, (mtu, advmss, priority, table, scope), extra)| Route {
            dst,
            gw,
            mtu,
            advmss,
            priority,
            table,
            scope,
            extra,
        },
    )
}

fn interface() -> impl Strategy<Value = Interface> {
    (
        ".{0,6}",
        "[0-9a-f:]{0,17}",
        0..9000_i64,
        "(/[a-z]{1,4}){0,2}",
        "(/[a-z]{1,4}){0,2}",
        "[0-9:.]{0,7}",
        extra(),
    )
        .prop_map(|(name, mac, mtu, sandbox, socket_path, pci_id, extra)| Interface {
            name,
            mac,
            mtu,
            sandbox,
            socket_path,
            pci_id,
            extra,
        })
}

fn dns() -> impl Strategy<Value = Dns> {
    (vec("[0-9.]{0,8}", 0..3), ".{0,6}", vec(".{0,6}", 0..3), vec(".{0,6}", 0..3), extra()).prop_map(
        |(nameservers, domain, search, options, extra)| Dns { nameservers, domain, search, options, extra },
    )
}

/// A result that every version since 0.3.0 can represent.
pub(crate) fn listed_result() -> impl Strategy<Value = CniResult> {
    (
        vec(interface(), 0..4),
        vec(family().prop_flat_map(ip), 0..4),
        vec(family().prop_flat_map(route), 0..4),
        dns(),
        extra(),
    )
        .prop_map(|(interfaces, ips, routes, dns, extra)| CniResult {
            interfaces,
            ips,
            routes,
            dns,
            extra,
        })
}

/// A result that every version can represent: at most one address of a family, and routes of these families only.
pub(crate) fn single_result() -> impl Strategy<Value = CniResult> {
    use IpFamily::{V4, V6};
    prop_oneof![Just(vec![V4]), Just(vec![V6]), Just(vec![V4, V6])].prop_flat_map(|families| {
        let ips: Vec<_> =
            families.iter().map(|f| ip(*f).prop_map(|ip| Ip { interface: None, ..ip })).collect();
        let routes: Vec<_> = families.into_iter().map(|f| vec(route(f), 0..3)).collect();
        (ips, routes, dns(), extra()).prop_map(|(ips, routes, dns, extra)| CniResult {
            interfaces: Vec::new(),
            ips,
            routes: routes.concat(),
            dns,
            extra,
        })
    })
}

/// Inserts `with` somewhere into `value`; `place` says where.
pub(crate) fn replace(value: &mut Value, place: &[prop::sample::Index], with: Value) {
    let inner = match (place.split_first(), &mut *value) {
        (Some((at, rest)), Value::Array(items)) if !items.is_empty() => {
            let at = at.index(items.len());
            items.get_mut(at).map(|item| (item, rest))
        }
        (Some((at, rest)), Value::Object(map)) if !map.is_empty() => {
            let at = at.index(map.len());
            map.values_mut().nth(at).map(|item| (item, rest))
        }
        _ => None,
    };
    match inner {
        Some((item, rest)) => replace(item, rest, with),
        None => *value = with,
    }
}

/// A pod, as an API server or an agent could describe it.
pub(crate) fn pod() -> impl Strategy<Value = PodFacts> {
    let context = (option::of(any::<i64>()), option::of(any::<i64>()))
        .prop_map(|(run_as_user, run_as_group)| SecurityContext { run_as_user, run_as_group });
    let env = (".{0,6}", ".{0,6}").prop_map(|(name, value)| EnvVar { name, value });
    let of_pod = (option::of(".{0,6}"), option::of(context.clone()));
    let container =
        (".{0,6}", vec(".{0,6}", 0..3), vec(env, 0..3), option::of(".{0,6}"), option::of(context)).prop_map(
            |(name, args, env, restart_policy, security_context)| Container {
                name,
                args,
                env,
                restart_policy,
                security_context,
            },
        );
    let map = || btree_map(".{0,6}", ".{0,6}", 0..3);
    let metadata = (".{0,6}", ".{0,6}", ".{0,6}", map(), map()).prop_map(
        |(name, namespace, uid, labels, annotations)| Metadata { name, namespace, uid, labels, annotations },
    );
    (metadata, any::<bool>(), of_pod, vec(container.clone(), 0..3), vec(container, 0..3)).prop_map(
        |(metadata, host_network, (runtime_class_name, security_context), init_containers, containers)| {
            PodFacts {
                metadata,
                spec: Spec {
                    host_network,
                    runtime_class_name,
                    security_context,
                    init_containers,
                    containers,
                },
            }
        },
    )
}
