// SPDX-License-Identifier: Apache-2.0
//! Upstream's probe: it passes exactly where the proxy's own connections are redirected.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::pod::{ALL, Pod, Proxy, ran};
use crate::{Case, Needs};

pub(crate) const CASES: &[Case] = &[
    Case("validation_passes_with_rules_of_either_family_and_back_end", Needs::Namespace, passes),
    Case("without_rules_it_ends_with_126_in_time", Needs::Namespace, no_rules),
    Case("after_a_clean_up_it_ends_with_126", Needs::Namespace, cleaned_up),
    Case("rules_that_come_while_it_tries_are_enough", Needs::Namespace, repaired),
    Case("one_listener_is_enough_and_none_is_not", Needs::Namespace, listeners),
    Case("a_connection_that_was_not_redirected_proves_nothing", Needs::Namespace, direct),
    Case("another_user_than_the_proxy_proves_nothing", Needs::Users, another_user),
    Case("without_an_address_it_ends_with_1", Needs::Namespace, no_address),
];

const FAMILIES: [(&[&str], &str); 2] = [(&["10.9.0.2"], "127.0.0.6:15002"), (&["fd00:9::2"], "[::6]:15002")];

fn passes(proxy: Proxy) {
    for (addresses, target) in FAMILIES {
        for more in [&["--backend=nft-compat"][..], &["--native-nftables"], &["-m", "TPROXY"]] {
            let pod = Pod::new(proxy, addresses);
            pod.program(&[&ALL, more].concat());
            pod.validate(&[]).expect(0, &format!("redirection works\tto={target}\tport=15006"));
        }
    }
    let pod = Pod::new(proxy, FAMILIES[0].0);
    pod.program(&[&ALL[..], &["-p", "16001", "-z", "16006"]].concat());
    pod.validate(&["-p", "16001", "-z", "16006", "--iptables-probe-port=9"]).expect(0, "port=16006");
    pod.validate(&[]).expect(126, "127.0.0.6:15002");
}

fn no_rules(proxy: Proxy) {
    for (addresses, target) in FAMILIES {
        let pod = Pod::new(proxy, addresses);
        let start = Instant::now();
        let seen = pod.validate(&["--probe-timeout=300ms"]);
        let took = start.elapsed();
        assert!((Duration::from_millis(300)..Duration::from_secs(3)).contains(&took), "{took:?}");
        assert!(seen.log.contains("cni.repair.deletePods=true"), "{}", seen.log);
        seen.expect(126, &format!("nothing that was sent to {target} arrived"));
    }
}

fn cleaned_up(proxy: Proxy) {
    let pod = Pod::new(proxy, &["10.9.0.2"]);
    pod.program(&ALL);
    pod.validate(&[]).expect(0, "redirection works");
    pod.program(&["--cleanup-only"]);
    pod.validate(&["--probe-timeout=200ms"]).expect(126, "nothing that was sent");
}

fn repaired(proxy: Proxy) {
    let pod = Pod::new(proxy, &["10.9.0.2"]);
    let mut command = pod.validation(&["--probe-timeout=20s"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("rules are not touched")));
    pod.program(&ALL);
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(child.wait().unwrap().success(), "{rest:?}");
}

fn listeners(proxy: Proxy) {
    let pod = Pod::new(proxy, &["10.9.0.2"]);
    pod.program(&ALL);
    let outbound = TcpListener::bind("127.0.0.1:15001").unwrap();
    pod.validate(&[]).expect(0, "cannot listen\taddress=127.0.0.1:15001");
    let _inbound = TcpListener::bind("127.0.0.1:15006").unwrap();
    pod.validate(&[]).expect(126, "no listener available on port 15001 or 15006 of 127.0.0.1");
    drop(outbound);
    pod.validate(&["--probe-timeout=300ms"]).expect(126, "nothing that was sent");
}

fn direct(proxy: Proxy) {
    let pod = Pod::new(proxy, &["10.9.0.2"]);
    // Conntrack runs, so the kernel knows an original destination: the listener's own.
    pod.program(&["-b", "80"]);
    pod.program(&["--cleanup-only", "-b", "80"]);
    let mut command = pod.validation(&["--probe-timeout=1s"]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let connection = loop {
        match TcpStream::connect("127.0.0.1:15006") {
            Ok(connection) => break connection,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    let output = child.wait_with_output().unwrap();
    drop(connection);
    assert_eq!(output.status.code(), Some(126), "{}", String::from_utf8_lossy(&output.stderr));
}

fn another_user(proxy: Proxy) {
    let pod = Pod::new(proxy, &["10.9.0.2"]);
    pod.program(&ALL);
    let mut command = pod.validation(&["--probe-timeout=300ms"]);
    std::os::unix::process::CommandExt::uid(&mut command, 4711);
    std::os::unix::process::CommandExt::gid(&mut command, 4711);
    ran(command).expect(126, "nothing that was sent");
}

fn no_address(proxy: Proxy) {
    Pod::new(proxy, &[]).validate(&[]).expect(1, "no valid local IP address found");
}
