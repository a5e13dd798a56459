// SPDX-License-Identifier: Apache-2.0
//! The fuzz targets over random bytes, and over real texts that were cut and changed.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

const ANNOTATIONS: &[u8] = b"TPROXY\n*\n10.0.0.0/8,fd00::/8\n80,443\n*\n15020\n443\neth0\nk6t\n\n";
const NETCONF: &[u8] = br#"{"cniVersion":"1.1.0","name":"k8s","type":"istio-cni","plugin_log_level":"debug","exclude_namespaces":["kube-system"],"native_nftables":true,"prevResult":{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"}],"ips":[{"address":"10.0.0.2/24","interface":0}]}}"#;
const SAVED: &[u8] = b"# x\n*nat\n:OUTPUT ACCEPT [0:0]\n:ISTIO_OUTPUT - [0:0]\n[1:60] -A OUTPUT -j ISTIO_OUTPUT\n-I OUTPUT 1 ! -d 127.0.0.1/32 -o lo -p tcp -m multiport ! --dports 53,15008 -m owner --uid-owner 1337 -m comment --comment \"a b\" -j REDIRECT --to-ports 15006\nCOMMIT\n";
const LISTED: &[u8] = br#"{"nftables":[{"table":{"family":"inet","name":"t"}},{"chain":{"family":"inet","table":"t","name":"c","type":"nat","hook":"output","prio":-100,"policy":"accept"}},{"rule":{"family":"inet","table":"t","chain":"c","expr":[{"match":{"op":"!=","left":{"payload":{"protocol":"tcp","field":"dport"}},"right":{"set":[53,15008]}}},{"mangle":{"key":{"ct":{"key":"mark"}},"value":{"meta":{"key":"mark"}}}},{"counter":{"packets":1,"bytes":2}},{"jump":{"target":"c"}}]}}]}"#;

const LIST: &[u8] = b"table inet t {\n\tchain c {\n\t\ttype nat hook output priority dstnat; policy accept;\n\t\toifname \"lo\" tcp dport != { 53, 15008 } skuid 1337 counter packets 3 bytes 180 jump d\n\t\tct state established,related ip saddr @s accept\n\t}\n}\n";

/// A table, a chain at a hook and a rule `iifname lo counter return`, as nf_tables lists them.
const REPLIES: &[u8] = include_bytes!("replies.bin");

/// containerd's answer: a condition, and one network with one plugin.
const STATUS: &[u8] = b"\x00\x00\x00\x00\xec\x0a\x12\x0a\x10\x0a\x0cNetworkReady\x10\x01\x12\xbc\x01\x0a\x09cniconfig\x12\xae\x01{\"PluginConfDir\":\"/etc/cni/net.d\",\"PluginMaxConfNum\":1,\"Networks\":[{\"Config\":{\"Name\":\"net\",\"Plugins\":[{\"Source\":\"{\\\"type\\\":\\\"istio-cni\\\"}\"}],\"Source\":\"{}\"},\"IFName\":\"eth0\"}]}\x12\x17\x0a\x11lastCNILoadStatus\x12\x02OK";

const CONFIG: &[u8] = b"[crio.network]\ncni_default_network = \"azure\"\nnetwork_dir = \"/etc/cni/net.d/\"\nplugin_dirs = [\n  \"/opt/cni/bin\", # ours\n]\n[x.cni]\n  max_conf_num = 2\n";

/// A real text with some of its bytes changed and a piece of it repeated or left out.
fn changed(real: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let changes = vec((any::<Index>(), any::<u8>()), 0..6);
    (changes, any::<Index>(), any::<Index>(), any::<Index>()).prop_map(move |(changes, from, to, at)| {
        let mut bytes = real.to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
        let piece = bytes[from.min(to)..from.max(to)].to_vec();
        if from < to {
            let at = at.index(bytes.len());
            bytes.splice(at..at, piece);
        } else {
            bytes.drain(to..from);
        }
        bytes
    })
}

macro_rules! bounded {
    ($($name:ident: $real:expr;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(512))]
            $(
                #[test]
                fn $name(random in vec(any::<u8>(), 0..300), changed in changed($real)) {
                    fuzz::$name($real);
                    fuzz::$name(&random);
                    fuzz::$name(&changed);
                }
            )*
        }
    };
}

bounded! {
    annotations: ANNOTATIONS;
    netconf: NETCONF;
    netlink_replies: REPLIES;
    iptables_save: SAVED;
    nft_json: LISTED;
    nft_list: LIST;
    cri_status: STATUS;
    runtime_config: CONFIG;
}

#[test]
fn the_real_texts_are_accepted() {
    assert!(fuzz::is_enrolled(ANNOTATIONS));
    let text = |bytes: &'static [u8]| std::str::from_utf8(bytes).unwrap();
    assert!(protocol::netconf::NetConf::parse(NETCONF).is_ok());
    let saved = redirect::found::save::parse(text(SAVED), redirect::ruleset::Family::V4).unwrap();
    assert_eq!(saved.tables[0].chains[0].rules.len(), 2);
    assert_eq!(redirect::found::json::parse(text(LISTED)).unwrap().tables[0].chains[0].rules.len(), 1);
    assert_eq!(redirect::found::native::parse(text(LIST)).unwrap().tables[0].chains[0].rules.len(), 2);
    let info = protocol::cri::info(STATUS).unwrap();
    assert_eq!(protocol::cri::loaded(&info).unwrap().networks[0].name, "net");
    let config = protocol::directories::of_runtime(text(CONFIG));
    assert_eq!((config.default_network.as_deref(), config.most), (Some("azure"), Some(2)));
    let replied = netfilter::read::replies(REPLIES).unwrap();
    assert_eq!(replied.counters().count(), 1);
    let found = netfilter::found_rules(&replied);
    let rules: Vec<_> = found.tables[0].chains.iter().flat_map(|chain| &chain.rules).collect();
    assert_eq!(rules[0].text, "-i lo -j RETURN");
}
