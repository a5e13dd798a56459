// SPDX-License-Identifier: Apache-2.0
//! Inputs from files, variables and addresses, and errors before anything is touched.

use iptables::exit::Exit;
use netfilter::program::Surroundings;
use netfilter::{Backend, Wish};
use redirect::config::{Dns, Mode};
use redirect::ruleset::{Dialect, Id};

use crate::stage::{KernelCall, Stage};

fn ids(ids: &[u32]) -> Vec<Id> {
    ids.iter().copied().map(Id::Number).collect()
}

#[test]
fn the_proxy_s_user_comes_from_flag_user_or_default() {
    let passwd = "root:x:0:0::/:\nistio-proxy:x:1500:1501::/:\nother:x:1600:1601::/:\n";
    let image = || Stage::new().with_file("/etc/passwd", passwd);
    let owners = |stage: Stage, arguments: &[&str]| {
        let config = stage.config(arguments);
        (config.proxy_uids, config.proxy_gids)
    };
    assert_eq!(owners(Stage::new(), &[]), (ids(&[1337]), ids(&[1337])));
    assert_eq!(owners(image(), &[]), (ids(&[1500]), ids(&[1500])));
    assert_eq!(owners(image().with_env(&[("ENVOY_USER", "other")]), &[]), (ids(&[1600]), ids(&[1600])));
    assert_eq!(owners(image().with_env(&[("ENVOY_USER", "nobody")]), &[]), (ids(&[1337]), ids(&[1337])));
    assert_eq!(owners(image(), &["-u", "5,6"]), (ids(&[5, 6]), ids(&[5, 6])));
    assert_eq!(owners(image().with_env(&[("PROXY_GID", "9")]), &["-u", "5"]), (ids(&[5]), ids(&[9])));
}

#[test]
fn resolvers_are_read_only_where_they_decide() {
    let servers = |stage: Stage, arguments: &[&str]| stage.config(arguments).dns;
    let resolv = || Stage::new().with_file("/etc/resolv.conf", "nameserver 10.96.0.10\nnameserver fd00::a\n");
    assert_eq!(servers(resolv(), &[]), Dns::Off);
    assert_eq!(servers(Stage::new(), &["--redirect-dns", "--capture-all-dns"]), Dns::All);
    let both = Dns::Servers { v4: vec!["10.96.0.10".parse().unwrap()], v6: vec!["fd00::a".parse().unwrap()] };
    assert_eq!(servers(resolv().with_env(&[("ISTIO_META_DNS_CAPTURE", "true")]), &[]), both);
    assert!(Stage::new().failure(&["--redirect-dns"]).contains("failed to load /etc/resolv.conf"));
    let none = Stage::new().with_file("/etc/resolv.conf", "search a.b\n").run(&["--redirect-dns"]);
    assert_eq!(none.exit, Exit::Success);
    assert!(none.stderr.contains("DNS is not captured"), "{}", none.stderr);
}

#[test]
fn the_first_address_decides_unless_the_pod_is_dual_stack() {
    let both = || Stage::new().with_addresses(&["10.9.0.2", "fd00:9::2"]);
    assert!(!both().config(&[]).ipv6);
    assert!(both().config(&["--dual-stack"]).ipv6);
    assert!(both().with_env(&[("ISTIO_DUAL_STACK", "1")]).config(&[]).ipv6);
    let none = Stage::new().with_addresses(&["127.0.0.1", "fe80::1"]);
    assert!(none.failure(&[]).contains("no valid local IP address found"));
}

#[test]
fn the_environment_s_own_settings_are_taken_and_checked() {
    let stage = |name: &str, value: &str| Stage::new().with_env(&[(name, value)]);
    let groups = "ISTIO_OUTBOUND_OWNER_GROUPS";
    assert_eq!(stage(groups, "7,8").config(&[]).owner_groups_include.listed(), ids(&[7, 8]));
    let many: Vec<String> = (0..65).map(|id| id.to_string()).collect();
    assert!(stage(groups, &many.join(",")).failure(&[]).contains("cannot exceed 64, got 65"));
    let loopback = "ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR";
    assert_eq!(stage(loopback, "127.0.0.1/8").config(&[]).loopback.length, 8);
    for bad in ["", "10.0.0.0/8", "::1/128", "127.0.0.0/7"] {
        assert!(stage(loopback, bad).failure(&[]).contains("failed to accept the settings"), "{bad}");
    }
}

#[test]
fn names_become_numbers_where_rules_are_applied_over_netlink() {
    let stage = || {
        let groups = [("ISTIO_OUTBOUND_OWNER_GROUPS", "java,202")];
        Stage::new().with_file("/etc/group", "java:x:303:\n").with_env(&groups)
    };
    assert_eq!(stage().config(&[]).owner_groups_include.listed(), ids(&[303, 202]));
    assert!(stage().run(&["--dry-run"]).stdout.contains("! --gid-owner java "));
    let tools = stage().config(&["--backend=iptables-nft"]);
    assert_eq!(tools.owner_groups_include.listed(), [Id::Name("java".to_owned()), Id::Number(202)]);
    let unknown = stage().failure(&["-u", "wheel"]);
    assert!(unknown.contains("failed to read --proxy-uid: "), "{unknown}");
}

#[test]
fn a_dry_run_of_a_clean_up_adds_no_rule() {
    let seen = Stage::new().run(&["--cleanup-only", "--dry-run", "-i", "*", "-b", "*"]);
    assert_eq!((seen.exit, seen.asked), (Exit::Success, vec![]));
    assert!(
        seen.stdout.contains("\n-D OUTPUT -j ISTIO_OUTPUT\n") && !seen.stdout.contains("-A "),
        "{}",
        seen.stdout
    );
}

#[test]
fn what_means_nothing_is_refused_before_anything_is_touched() {
    for (arguments, part) in [
        (&["-p", "http"][..], "failed to read --envoy-port: "),
        (&["-z", ""], "failed to read --inbound-capture-port: "),
        (&["-b", "80-90"], "failed to read --istio-inbound-ports: "),
        (&["-i", "10.0.0.0"], "failed to read --istio-service-cidr: "),
        (&["-x", "*"], "invalid value for OUTBOUND_IP_RANGES_EXCLUDE"),
        (&["-t", "-1"], "failed to read --istio-inbound-tproxy-mark: "),
        (&["--force-iptables-binary=nf"], "invalid FORCE_IPTABLES_BINARY value"),
        (&["--backend=fastest"], "\"fastest\" is not a back end"),
        (&["--run-validation", "--validate-paths=some"], "\"some\" is none of off, report and enforce"),
        (&["--network-namespace=/nonexistent/ns"], "failed to work in --network-namespace"),
    ] {
        let stderr = Stage::new().failure(arguments);
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
    assert_eq!(Stage::new().config(&["-m", "tproxy"]).mode, Mode::Redirect);
}

#[test]
fn the_back_end_is_chosen_by_ours_then_native_then_the_forced_binary() {
    let wish = |arguments: &[&str]| Stage::new().request(arguments).wish;
    assert_eq!(wish(&[]), Wish::Auto);
    assert_eq!(wish(&["--force-iptables-binary=legacy"]), Wish::Only(Backend::IptablesLegacy));
    assert_eq!(wish(&["--force-iptables-binary=legacy", "--native-nftables"]), Wish::Only(Backend::Nft));
    assert_eq!(wish(&["--native-nftables", "--backend=iptables-nft"]), Wish::Only(Backend::IptablesNft));
    let unset = Stage::new().with_env(&[("MILLRACE_BACKEND", ""), ("MILLRACE_VALIDATE_PATHS", "")]);
    assert_eq!(unset.request(&[]).wish, Wish::Auto);
    let env = Stage::new().with_env(&[("MILLRACE_BACKEND", "nft-compat"), ("BACKEND", "nft")]);
    assert_eq!(env.request(&[]).wish, Wish::Only(Backend::NftCompat));
    assert_eq!(Stage::new().config(&["--native-nftables"]).dialect, Dialect::Nft);
}

#[test]
fn the_run_s_other_wishes_reach_the_kernel() {
    let options = Stage::new().request(&["--reconcile", "--force-apply"]).options;
    assert!(options.reconcile && options.force);
    assert_eq!(options.surroundings, Surroundings::Container);
    assert_eq!(Stage::new().request(&["--cni-mode"]).options.surroundings, Surroundings::Node);
    let seen = Stage::new().run(&["--cleanup-only", "--network-namespace", "/run/netns/pod"]);
    assert!(
        matches!(seen.asked.as_slice(), [KernelCall::Enter(path), KernelCall::CleanUp(_)] if path.ends_with("pod")),
        "{seen:?}"
    );
    assert_eq!(Stage::new().run(&["--skip-rule-apply", "--cleanup-only"]).asked, []);
}
