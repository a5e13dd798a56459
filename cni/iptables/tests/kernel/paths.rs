// SPDX-License-Identifier: Apache-2.0
//! Validation beyond upstream's probe: it reports, and fails only where enforced.

use netfilter::address::Rtnetlink;
use netfilter::route::PolicyRoutes;

use crate::pod::{ALL, Pod, Proxy};
use crate::{Case, Needs};

pub(crate) const CASES: &[Case] = &[
    Case("a_second_family_without_rules_is_found", Needs::Namespace, second_family),
    Case("rules_made_with_another_dns_setting_are_found", Needs::Namespace, dns_setting),
    Case("a_captured_tunnel_port_is_found", Needs::Namespace, tunnel_port),
    Case("inbound_rules_of_tproxy_are_met", Needs::Namespace, inbound_by_tproxy),
    Case("missing_policy_routes_are_found_without_privileges", Needs::Namespace, policy_routes),
    Case("rules_that_may_be_read_are_compared", Needs::Namespace, rules),
    Case("rules_in_legacy_tables_are_compared_as_well", Needs::Legacy, legacy),
    Case("what_cannot_be_proven_is_said_and_fails_nothing", Needs::Users, unproven),
];

const ENFORCE: &str = "--validate-paths=enforce";
const OFF: &str = "--validate-paths=off";

/// A path that is broken is reported, fails where it is enforced, and is not looked at where that is off.
fn found(pod: Pod, arguments: &[&str], path: &str) {
    pod.validate(arguments).expect(0, &format!("warn\tpath is not as it should be\tpath={path}"));
    pod.validate(&[arguments, &[ENFORCE]].concat())
        .expect(126, &format!("failed to validate redirection: {path}: "));
    let silent = pod.validate(&[arguments, &[OFF]].concat());
    assert!(!silent.log.contains("path"), "{}", silent.log);
}

fn holds(pod: Pod, arguments: &[&str], path: &str) {
    pod.validate(arguments).expect(0, &format!("info\tpath holds\tpath={path}"));
}

fn second_family(proxy: Proxy) {
    let pod = Pod::new(proxy, &["10.9.0.2", "fd00:9::2"]);
    pod.program(&ALL);
    holds(pod, &[], "tunnel port");
    pod.validate(&[]).expect(0, "IPv6 is not redirected here");
    found(pod, &["--dual-stack"], "second family");
    pod.program(&[&ALL[..], &["--dual-stack"]].concat());
    holds(pod, &["--dual-stack"], "second family\tbecause=[::6]:15002 is redirected to port 15006");
}

fn dns_setting(proxy: Proxy) {
    let with = ["--redirect-dns", "--capture-all-dns"];
    let pod = Pod::new(proxy, &["10.9.0.2"]);
    pod.program(&ALL);
    holds(pod, &[], "DNS setting");
    found(pod, &with, "DNS setting");
    pod.program(&[&ALL[..], &with].concat());
    holds(pod, &with, "DNS setting");
    found(pod, &[], "DNS setting");
}

fn tunnel_port(proxy: Proxy) {
    let pod = Pod::new(proxy, &["10.9.0.2"]);
    pod.program(&[&ALL[..], &["-e", "15009"]].concat());
    holds(pod, &["-e", "15009"], "tunnel port");
    found(pod, &[], "tunnel port");
}

fn policy_routes(proxy: Proxy) {
    for addresses in [&["10.9.0.2"][..], &["fd00:9::2"]] {
        let pod = Pod::new(proxy, addresses);
        let tproxy = [&ALL[..], &["-m", "TPROXY"]].concat();
        pod.program(&tproxy);
        holds(pod, &tproxy, "TPROXY's policy routes");
        let routes = PolicyRoutes { mark: 1337, table: 133, ipv6: true };
        Rtnetlink::open().unwrap().remove_policy_routes(routes).unwrap();
        found(pod, &tproxy, "TPROXY's policy routes");
    }
}

/// Nothing can come from outside here, but what the proxy sends to a port that the nat table leaves alone meets the inbound rules.
fn inbound_by_tproxy(proxy: Proxy) {
    for addresses in [&["10.9.0.2"][..], &["fd00:9::2"]] {
        let pod = Pod::new(proxy, addresses);
        let tproxy = [&ALL[..], &["-m", "TPROXY"]].concat();
        pod.program(&[&tproxy[..], &["--backend=nft-compat"]].concat());
        holds(pod, &tproxy, "inbound by TPROXY");
        found(pod, &[&tproxy[..], &["-b", "80"]].concat(), "tunnel port");
        for other in [&["--backend=nft"][..], &["-b", "80"]] {
            pod.program(&[&tproxy, other].concat());
            let unproven = "path cannot be proven from here\tpath=inbound by TPROXY";
            pod.validate(&tproxy).expect(0, unproven);
        }
    }
}

fn rules(_: Proxy) {
    for backend in ["--backend=nft-compat", "--backend=nft"] {
        compared(backend);
    }
}

fn legacy(_: Proxy) {
    compared("--backend=iptables-legacy");
}

/// The proxy is root here, which may read rules.
fn compared(backend: &str) {
    let pod = Pod::new(Proxy { id: 0 }, &["10.9.0.2"]);
    pod.program(&[&ALL[..], &[backend]].concat());
    holds(pod, &ALL, "rules");
    holds(pod, &[&ALL[..], &["-g", "root"]].concat(), "rules");
    found(pod, &[&ALL[..], &["-d", "9999"]].concat(), "rules");
}

fn unproven(proxy: Proxy) {
    let pod = Pod::new(proxy, &["10.9.0.2"]);
    pod.program(&ALL);
    for path in ["rules", "inbound from outside", "outbound of the app", "DNS of the app"] {
        pod.validate(&[&ALL[..], &[ENFORCE]].concat())
            .expect(0, &format!("path cannot be proven from here\tpath={path}"));
    }
}
