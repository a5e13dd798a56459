// SPDX-License-Identifier: Apache-2.0
//! Packets between pods.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use cluster::{Answer, PodStart, Transport, Workload};
use redirect::config::Config;
use redirect::list::Selection;
use serde_json::{Value, json};

use crate::lab::{Lab, container, one, to};

pub(crate) async fn pods_reach_each_other_in_both_families() {
    let lab = Lab::start().await;
    let server = lab.running("server", one("app --listen tcp:8080 --listen udp:9000")).await;
    let client = lab.running("client", one("pause")).await;
    assert_eq!(server.addresses().len(), 2);
    let mut traffic = Vec::new();
    for address in server.addresses() {
        traffic.extend([to(Transport::Tcp, address, 8080), to(Transport::Udp, address, 9000)]);
        traffic.extend([to(Transport::Tcp, address, 1), to(Transport::Udp, address, 1)]);
    }
    let answers = client.send_all(&traffic).await.unwrap();
    for (sent, answer) in traffic.iter().zip(answers) {
        let Answer::App { port, peer, via } = answer else {
            assert_eq!((sent.port, answer), (1, Answer::Refused));
            continue;
        };
        assert_eq!((port, via), (sent.port, Vec::new()));
        let peer: std::net::SocketAddr = peer.parse().unwrap();
        assert!(client.addresses().contains(&peer.ip()), "seen as {peer}");
    }
    let far = to(Transport::Tcp, "192.0.2.1".parse().unwrap(), 80);
    assert_eq!(client.send(&far).await.unwrap(), Answer::Refused, "the node has no route to it");
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn a_pod_has_the_families_that_it_asks_for() {
    let lab = Lab::start().await;
    for (families, v4, v6) in [("v4", true, false), ("v6", false, true)] {
        let start =
            lab.annotated(families, one("pause"), json!({ "lab.millrace.dev/families": families })).await;
        let PodStart::Running { addresses } = start else { panic!("{start:?}") };
        assert_eq!(addresses.iter().any(IpAddr::is_ipv4), v4, "{families}");
        assert_eq!(addresses.iter().any(IpAddr::is_ipv6), v6, "{families}");
    }
    let start = lab.annotated("both", one("pause"), json!({ "lab.millrace.dev/families": "v6,v4" })).await;
    let PodStart::Running { addresses } = start else { panic!("{start:?}") };
    assert_eq!(addresses.iter().map(IpAddr::is_ipv6).collect::<Vec<_>>(), [true, false]);
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn clusters_side_by_side_do_not_meet() {
    let (one_lab, other_lab) = (Lab::start().await, Lab::start().await);
    let server = one_lab.running("server", one("app --listen tcp:8080")).await;
    let other = other_lab.running("server", one("app --listen tcp:9090")).await;
    assert_eq!(server.addresses(), other.addresses(), "the same address in both");
    let client = other_lab.running("client", one("pause")).await;
    let address = server.addresses()[0];
    let reached = client.send(&to(Transport::Tcp, address, 9090)).await.unwrap();
    assert!(matches!(reached, Answer::App { port: 9090, .. }), "{reached:?}");
    assert_eq!(client.send(&to(Transport::Tcp, address, 8080)).await.unwrap(), Answer::Refused);
    one_lab.cluster.stop().await.unwrap();
    other_lab.cluster.stop().await.unwrap();
}

pub(crate) async fn the_proxy_says_what_it_got() {
    let lab = Lab::start().await;
    let pod = lab.running("p", one("proxy --mode forward")).await;
    let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    for address in loopback {
        for (transport, port) in [(Transport::Tcp, 15001), (Transport::Tcp, 15021), (Transport::Udp, 15053)] {
            let answer = pod.send(&to(transport, address, port)).await.unwrap();
            let Answer::Proxy { hop } = answer else { panic!("{address} {port}: {answer:?}") };
            let original: std::net::SocketAddr = hop.original.parse().unwrap();
            assert_eq!((hop.port, original.ip(), original.port()), (port, address, port));
        }
    }
    lab.cluster.stop().await.unwrap();
}

/// A pod with a proxy and an app, and the usual rules in its namespace.
async fn meshed(lab: &Lab, name: &str, mode: &str) -> Box<dyn Workload> {
    let mut proxy = container("istio-proxy", "proxy sidecar --domain x");
    proxy["securityContext"] = json!({ "runAsUser": 1337, "runAsGroup": 1337 });
    proxy["env"] = json!([{ "name": "LAB_PROXY_MODE", "value": mode }]);
    let app = container("app", "app --listen tcp:8080 --listen udp:9000");
    let pod = lab.running(name, json!({ "containers": [proxy, app] })).await;
    let config = Config {
        ipv6: true,
        inbound_ports_include: Some(Selection::All),
        outbound_ranges_include: Selection::All,
        ..Config::default()
    };
    let rules = redirect::generate::ruleset(&config).unwrap();
    let apply = move || {
        netfilter::address::add_loopback_helper().unwrap();
        netfilter::apply(&rules).unwrap();
    };
    kubelet::netns::inside(pod.netns().unwrap().as_ref(), apply).await.unwrap();
    pod
}

pub(crate) async fn redirected_connections_pass_both_proxies() {
    let lab = Lab::start().await;
    let server = meshed(&lab, "server", "forward").await;
    let client = meshed(&lab, "client", "forward").await;
    for address in server.addresses() {
        let target = SocketAddr::new(address, 8080).to_string();
        let answer = client.send(&to(Transport::Tcp, address, 8080)).await.unwrap();
        let Answer::App { port: 8080, peer, via } = answer else { panic!("{answer:?}") };
        let ports: Vec<u16> = via.iter().map(|hop| hop.port).collect();
        assert_eq!(ports, [15001, 15006]);
        assert!(via.iter().all(|hop| hop.original == target), "{via:?}");
        let peer: SocketAddr = peer.parse().unwrap();
        let helper = if address.is_ipv4() { "127.0.0.6" } else { "::6" };
        assert_eq!(peer.ip(), helper.parse::<IpAddr>().unwrap(), "the app sees the proxy's own source");
        // The proxy's own traffic is not caught on its way out, and UDP is not caught at all.
        let own = cluster::Traffic { uid: 1337, gid: 1337, ..to(Transport::Tcp, address, 8080) };
        let Answer::App { via, .. } = client.send(&own).await.unwrap() else { panic!("no answer") };
        assert_eq!(via.iter().map(|hop| hop.port).collect::<Vec<_>>(), [15006]);
        let answer = client.send(&to(Transport::Udp, address, 9000)).await.unwrap();
        assert!(matches!(&answer, Answer::App { port: 9000, via, .. } if via.is_empty()), "{answer:?}");
    }
    let far = "192.0.2.1".parse().unwrap();
    let answer = client.send(&to(Transport::Tcp, far, 443)).await.unwrap();
    assert!(matches!(&answer, Answer::Proxy { hop } if hop.original == "192.0.2.1:443"), "{answer:?}");
    let rules = client.network().await.unwrap().rules;
    let redirect = rules.iter().find(|rule| (&*rule.family, &*rule.chain) == ("ip", "ISTIO_REDIRECT"));
    assert_eq!(redirect.map(|rule| (rule.position, rule.packets)), Some((1, 2)), "{rules:?}");
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn a_sink_answers_and_nothing_follows() {
    let lab = Lab::start().await;
    let pod = meshed(&lab, "p", "sink").await;
    let loopback_packets = |rules: Vec<cluster::LiveRule>| -> Value {
        rules.iter().filter(|rule| rule.chain == "OUTPUT").map(|rule| rule.packets).collect()
    };
    let before = loopback_packets(pod.network().await.unwrap().rules);
    let answer = pod.send(&to(Transport::Tcp, "192.0.2.1".parse().unwrap(), 443)).await.unwrap();
    assert!(matches!(&answer, Answer::Proxy { hop } if hop.port == 15001), "{answer:?}");
    let after = loopback_packets(pod.network().await.unwrap().rules);
    let moved = |at: usize| after[at].as_u64().unwrap() - before[at].as_u64().unwrap();
    assert_eq!(moved(0), 1, "one packet met the rules: {before} {after}");
    lab.cluster.stop().await.unwrap();
}
