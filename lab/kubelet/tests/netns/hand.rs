// SPDX-License-Identifier: Apache-2.0
//! The hand on an embedded node: the lab's program at the far end of a pipe.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cluster::hand::{Count, Direction, Event, Hand, Kind, Network, Run, Signal, Transport as Ports, Writing};
use cluster::{Cluster as _, Configuration, Machines as _, PodName, Transport};
use serde_json::json;

use crate::isolation::some_user;
use crate::lab::{Lab, SOON, one, to};

const CONF: &str = "/etc/cni/net.d";

async fn hand(lab: &Lab) -> Arc<dyn Hand> {
    lab.node().hand().await.unwrap()
}

fn below(directory: &str, name: &str) -> std::path::PathBuf {
    Path::new(directory).join(name)
}

fn run(words: &[&str], owner: (u32, u32), capabilities: Option<&[&str]>) -> Run {
    let capabilities = capabilities.map(|names| names.iter().map(ToString::to_string).collect());
    Run { owner, capabilities, ..Run::new(Network::Node, words.iter().copied(), SOON) }
}

pub(crate) async fn files_are_those_of_the_node_and_errors_say_which_is_not_there() {
    let lab = Lab::start().await;
    let hand = hand(&lab).await;
    let missing = below(CONF, "missing");
    let error = hand.read(&missing).await.unwrap_err();
    assert!(error.is_absence(), "{error:?}");
    assert!(error.to_string().starts_with("cannot read /etc/cni/net.d/missing: "), "{error}");
    assert_eq!(hand.look(&missing).await.unwrap(), None);
    let file = below(CONF, "a.conf");
    hand.write(&file, &[0, 255, b'\n'], Writing::Whole { mode: 0o600 }).await.unwrap();
    assert_eq!(hand.read(&file).await.unwrap(), [0, 255, b'\n']);
    assert_eq!(std::fs::read(lab.directory.join("node-1/root/etc/cni/net.d/a.conf")).unwrap().len(), 3);
    hand.link(&below(CONF, "b.conf"), Path::new("a.conf")).await.unwrap();
    let names: Vec<_> = hand.list(Path::new(CONF)).await.unwrap();
    let names: Vec<_> = names.iter().map(|one| (one.name.as_str(), one.kind, one.size)).collect();
    assert_eq!(names[1..], [("a.conf", Kind::File, 3), ("b.conf", Kind::Link, 6)]);
    let before = hand.look(&file).await.unwrap().unwrap();
    assert_eq!((before.mode, before.owner), (0o600, (0, 0)));
    hand.write(&file, b"in place", Writing::InPlace).await.unwrap();
    let after = hand.look(&file).await.unwrap().unwrap();
    assert_eq!((after.inode, after.mode), (before.inode, 0o600));
    hand.write(&file, b"whole", Writing::WHOLE).await.unwrap();
    let after = hand.look(&file).await.unwrap().unwrap();
    assert!(after.inode != before.inode && after.mode == 0o644, "{after:?}");
    hand.make_directory(&below("/srv", "x/y")).await.unwrap();
    hand.remove(&below("/srv", "x")).await.unwrap();
    assert!(hand.remove(&below("/srv", "x")).await.unwrap_err().is_absence());
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn no_path_leads_out_of_the_node() {
    let lab = Lab::start().await;
    let hand = hand(&lab).await;
    let (secret, escaped) = (lab.directory.join("secret"), lab.directory.join("escaped"));
    std::fs::write(&secret, "of the machine").unwrap();
    let up = Path::new("/../../secret");
    let error = hand.read(up).await.unwrap_err().to_string();
    assert!(error.contains("`..` is in the path"), "{error}");
    let error = hand.write(Path::new("/etc/../../../escaped"), b"x", Writing::WHOLE).await.unwrap_err();
    assert!(error.to_string().contains("`..` is in the path"), "{error}");
    for (name, target) in [("absolute", secret.as_path()), ("relative", Path::new("../../../../../secret"))] {
        hand.link(&below(CONF, name), target).await.unwrap();
        let error = hand.read(&below(CONF, name)).await.unwrap_err();
        assert!(error.is_absence(), "{error:?}");
    }
    hand.link(&below(CONF, "new"), &escaped).await.unwrap();
    assert!(hand.write(&below(CONF, "new"), b"x", Writing::InPlace).await.is_err());
    assert!(!escaped.exists());
    let own = format!("/proc/self/root{}", secret.display());
    assert!(hand.read(Path::new(&own)).await.is_err());
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn a_watch_of_networks_reads_each_as_it_comes() {
    let lab = Lab::start().await;
    let hand = hand(&lab).await;
    let (file, empty) = (below(CONF, "10-a.conflist"), br#"{"name":"a","plugins":[]}"#);
    let changes = hand.watch_networks(Path::new(CONF), Path::new("/opt/cni/bin")).await.unwrap();
    hand.write(&file, empty, Writing::WHOLE).await.unwrap();
    hand.write(&below(CONF, "note"), b"", Writing::WHOLE).await.unwrap();
    let all = changes.stop().await.unwrap();
    let came: Vec<_> = all.iter().filter(|change| change.event == Event::Came).collect();
    let found = came[0].found.as_ref().unwrap();
    assert_eq!((found.content.as_ref().map(|bytes| &*bytes.0), found.late), (Some(&empty[..]), false));
    assert!(found.plugins.iter().any(|name| name == "lab-net"), "{found:?}");
    assert!(came[1].found.is_none(), "{came:?}");
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn a_watch_tells_in_place_from_whole_and_follows_a_path_that_comes_later() {
    let lab = Lab::start().await;
    let hand = hand(&lab).await;
    let file = below(CONF, "a.conf");
    let events = async |changes: cluster::hand::Changes| {
        let all = changes.stop().await.unwrap().into_iter();
        all.filter(|change| change.name.as_deref() == Some("a.conf")).map(|one| one.event).collect::<Vec<_>>()
    };
    let changes = hand.watch(Path::new(CONF)).await.unwrap();
    hand.write(&file, b"one", Writing::WHOLE).await.unwrap();
    assert_eq!(events(changes).await, [Event::Came]);
    let changes = hand.watch(Path::new(CONF)).await.unwrap();
    hand.write(&file, b"two", Writing::InPlace).await.unwrap();
    hand.rename(&file, &below(CONF, "b.conf")).await.unwrap();
    // The kernel tells of emptying and filling once or twice.
    let mut told = events(changes).await;
    told.dedup();
    assert_eq!(told, [Event::Written, Event::Went]);
    let mut changes = hand.watch(&below("/srv", "later/file")).await.unwrap();
    hand.make_directory(Path::new("/srv/later")).await.unwrap();
    tokio::time::timeout(SOON, changes.next()).await.unwrap().unwrap();
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn a_capture_sees_a_datagram_on_the_loopback_of_a_pod_and_what_leaves_it() {
    let lab = Lab::start().await;
    let near = lab.running("near", one("app --listen udp:9000")).await;
    let far = lab.running("far", one("app --listen udp:9000")).await;
    let hand = hand(&lab).await;
    let mut capture = hand.capture(near.network_namespace().unwrap(), 100, None).await.unwrap();
    let others = hand.capture(near.network_namespace().unwrap(), 100, Some(1..2)).await.unwrap();
    let localhost = IpAddr::from([127, 0, 0, 1]);
    near.send(&to(Transport::Udp, localhost, 9000)).await.unwrap();
    // Neighbours are looked for meanwhile.
    let datagram = async {
        loop {
            let packet = capture.next().await.unwrap();
            if packet.flow.destination == localhost {
                return packet;
            }
        }
    };
    let first = tokio::time::timeout(SOON, datagram).await.unwrap();
    assert_eq!((&*first.interface, first.direction), ("lo", Direction::Out));
    assert!(first.at_ns > 1_700_000_000_000_000_000, "{first:?}");
    near.send(&to(Transport::Udp, far.addresses()[0], 9000)).await.unwrap();
    let (packets, counts) = capture.stop().await.unwrap();
    let of_udp = packets.iter().filter(|packet| matches!(packet.flow.transport, Ports::Udp { .. }));
    assert_eq!(of_udp.count(), 5, "{packets:?}");
    let leaves = |count: &Count| {
        let Ports::Udp { destination, .. } = count.flow.transport else { return false };
        count.interface == "eth0" && count.direction == Direction::Out && destination == 9000
    };
    assert_eq!((counts.sum(leaves), counts.lost), (1, 0), "{counts:?}");
    let (packets, counts) = others.stop().await.unwrap();
    assert_eq!((packets, counts.sum(leaves)), (Vec::new(), 1), "{counts:?}");
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn a_program_has_the_capabilities_that_are_named_and_no_others() {
    let lab = Lab::start().await;
    let hand = hand(&lab).await;
    let status = |run| async {
        let answer = hand.run(run).await.unwrap();
        assert_eq!(answer.exit, Some(0), "{answer:?}");
        let of = |key: &str| {
            let line = answer.stdout.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.split_whitespace().next().unwrap().to_owned()
        };
        (of("CapEff:"), of("CapBnd:"), of("Uid:"))
    };
    let words = ["cat", "/proc/self/status"];
    let hex = |bits: u64| format!("{bits:016x}");
    let (net_admin, user) = (1 << 12, some_user());
    let none = status(run(&words, (0, 0), Some(&[]))).await;
    assert_eq!(none, (hex(0), hex(0), "0".to_owned()));
    let one = status(run(&words, (user, user), Some(&["NET_ADMIN"]))).await;
    assert_eq!(one, (hex(net_admin), hex(net_admin), user.to_string()));
    let all = status(run(&words, (0, 0), None)).await;
    assert_ne!(all.0, hex(0));
    let unknown = hand.run(run(&words, (0, 0), Some(&["NO_SUCH"]))).await.unwrap_err().to_string();
    assert!(unknown.contains("no capability is called \"NO_SUCH\""), "{unknown}");
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn processes_have_the_nodes_numbers_and_the_hand_ends_with_the_node() {
    let lab = Lab::with_nodes(&["node-1", "node-2"]).await;
    let pod = lab.running("p", one("pause")).await;
    let former = hand(&lab).await;
    let processes = |entries: Vec<cluster::hand::Entry>| -> Vec<u32> {
        entries.iter().filter_map(|one| one.name.parse().ok()).collect()
    };
    let pid = pod.process("main").await.unwrap().unwrap();
    let seen = processes(former.list(Path::new("/proc")).await.unwrap());
    assert!(seen.contains(&pid) && seen.len() == 3, "the first, the pod's and the hand: {seen:?}");
    former.signal(pid, Signal::Kill).await.unwrap();
    assert!(former.signal(4_000_000, Signal::Kill).await.is_err());
    lab.cluster.reboot("node-1", Configuration::Stays).await.unwrap();
    let gone = async {
        while former.list(Path::new("/proc")).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
    assert!(!hand(&lab).await.list(Path::new("/proc")).await.unwrap().is_empty());
    lab.cluster.stop().await.unwrap();
}

/// Names in a directory, as whoever has the node's processes finds it below a process' root.
async fn below_root(hand: &Arc<dyn Hand>, process: u32, directory: &str) -> Vec<String> {
    let path = format!("/proc/{process}/root{directory}");
    let mut names: Vec<_> =
        hand.list(Path::new(&path)).await.unwrap().into_iter().map(|one| one.name).collect();
    names.sort();
    names
}

pub(crate) async fn the_root_of_the_first_process_is_the_nodes_own() {
    let lab = Lab::with_nodes(&["node-1", "node-2"]).await;
    let paths = lab.node().paths().unwrap();
    std::fs::write(paths.run_dir.join("here"), "").unwrap();
    for again in [false, true] {
        let hand = hand(&lab).await;
        let found = async |directory: &str| below_root(&hand, 1, directory).await;
        assert_eq!(found("/etc/cni").await, ["net.d"]);
        assert_eq!(found("/etc/cni/net.d").await, ["10-lab.conflist"]);
        assert!(found("/opt/cni/bin").await.contains(&"lab-net".to_owned()));
        assert_eq!(found("/var/run/istio-cni").await.contains(&"here".to_owned()), !again);
        assert!(found("/proc").await.contains(&"1".to_owned()) && !found("/usr/bin").await.is_empty());
        assert_eq!(found("/run/netns").await, Vec::<String>::new());
        let name = format!("p-{again}");
        let pod = lab.running(&name, one("pause")).await;
        assert_eq!(found("/run/netns").await.len(), 1, "a mount that was made later");
        hand.write(Path::new("/proc/1/root/etc/cni/net.d/x"), b"x", Writing::WHOLE).await.unwrap();
        assert_eq!(std::fs::read_to_string(paths.conf_dir.join("x")).unwrap(), "x");
        hand.remove(Path::new("/etc/cni/net.d/x")).await.unwrap();
        drop(pod);
        lab.cluster.delete_pod(&PodName::new("default", &name)).await.unwrap();
        lab.cluster.reboot("node-1", Configuration::Stays).await.unwrap();
    }
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn a_volume_of_a_directory_of_the_node_has_what_is_below_it() {
    let lab = Lab::start().await;
    let mut spec = one("pause");
    spec["volumes"] = json!([{ "name": "etc", "hostPath": { "path": "/etc" } }]);
    spec["containers"][0]["volumeMounts"] =
        json!([{ "name": "etc", "mountPath": "/host/etc", "readOnly": true }]);
    let pod = lab.running("p", spec).await;
    let pid = pod.process("main").await.unwrap().unwrap();
    let found = below_root(&hand(&lab).await, pid, "/host/etc/cni/net.d").await;
    assert_eq!(found, ["10-lab.conflist"]);
    lab.cluster.stop().await.unwrap();
}
