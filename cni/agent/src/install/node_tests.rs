// SPDX-License-Identifier: Apache-2.0
//! The installation on a pretended node: directories of its own, the real file system.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use base64::Engine as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::claim::{Claim, InstallerRole};
use super::kubeconfig;
use super::pass::{ConflistError, Installer, PassReport, Permits, Touch, Written};
use super::uninstall::{BinaryRemoval, uninstall};
use crate::conflist::plan::NotRight;
use crate::files;
use crate::settings::{self, Settings};

/// An authority's certificate.
static AUTHORITY: LazyLock<String> = LazyLock::new(|| {
    let key = rcgen::KeyPair::generate().unwrap();
    rcgen::CertificateParams::default().self_signed(&key).unwrap().pem()
});

const PRIMARY: &str = r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"ptp"}]}"#;

/// Files that nobody else writes by right.
const OURS: [&str; 2] = ["bin/istio-cni", "run/istio-cni-kubeconfig"];

struct Node {
    root: TempDir,
    settings: Settings,
    installer: Installer,
}

impl Node {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let env = [("KUBERNETES_SERVICE_HOST", "fd00::1"), ("KUBERNETES_SERVICE_PORT", "443")];
        let env: BTreeMap<String, String> =
            env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut settings = settings::load(BTreeMap::new(), &env, |_| false).settings;
        let at = |name: &str| root.path().join(name);
        let places = &mut settings.places;
        places.source_dir = at("source");
        places.target_dirs = vec![at("bin")];
        places.net_dir = at("net.d");
        places.run_dir = at("run");
        places.account_dir = at("account");
        places.cache_dir = at("cache");
        settings.kubeconfig.ca_file = at("account/ca.crt");
        for directory in ["source", "bin", "net.d", "run", "account", "cache/results"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        let node = Self { root, settings, installer: Installer::default() };
        node.write("source/istio-cni", "plugin");
        fs::set_permissions(node.at("source/istio-cni"), fs::Permissions::from_mode(0o755)).unwrap();
        node.write("account/token", "secret\n");
        node.write("account/ca.crt", &AUTHORITY);
        node.write("net.d/10.conflist", PRIMARY);
        node
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    fn pass(&mut self) -> PassReport {
        self.installer.pass(&self.settings, &Permits::ALL)
    }

    /// Files below the node's root.
    fn files(&self) -> Vec<String> {
        fn walk(directory: &Path, root: &Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    walk(&path, root, found);
                } else {
                    found.push(path.strip_prefix(root).unwrap().display().to_string());
                }
            }
        }
        let mut found = Vec::new();
        walk(self.root.path(), self.root.path(), &mut found);
        found.sort();
        found.retain(|name| !name.starts_with("source") && !name.starts_with("account"));
        found
    }
}

#[test]
fn a_node_gets_everything_once() {
    let mut node = Node::new();
    let report = node.pass();
    assert!(matches!((report.binaries, report.kubeconfig), (Ok(Written::New), Ok(Written::New))));
    assert_eq!((report.conflist.unwrap(), report.steps.len()), ("10.conflist".to_owned(), 1));
    assert_eq!(node.files(), ["bin/istio-cni", "net.d/10.conflist", "run/istio-cni-kubeconfig"]);
    assert_eq!(files::mode_of(&node.at("bin/istio-cni")).unwrap(), 0o755);
    assert_eq!(files::mode_of(&node.at("run/istio-cni-kubeconfig")).unwrap(), 0o600);
    let report = node.pass();
    assert!(matches!((report.binaries, report.kubeconfig), (Ok(Written::Not), Ok(Written::Not))));
    assert!(report.conflist.is_ok() && report.steps.is_empty());
}

#[test]
fn the_credentials_say_what_kubelet_gave() {
    let mut node = Node::new();
    let read = |node: &Node| serde_json::from_str::<Value>(&node.text("run/istio-cni-kubeconfig")).unwrap();
    assert!(node.pass().kubeconfig.is_ok());
    let authority = base64::engine::general_purpose::STANDARD.encode(&*AUTHORITY);
    let cluster = json!({"server": "https://[fd00::1]:443", "certificate-authority-data": authority});
    assert_eq!(
        (&read(&node)["clusters"][0]["cluster"], &read(&node)["users"][0]["user"]["token"]),
        (&cluster, &json!("secret\n"))
    );
    node.write("account/token", "newer");
    node.settings.kubeconfig.skip_verify = true;
    node.settings.kubeconfig.mode = 0o640;
    assert!(matches!(node.pass().kubeconfig, Ok(Written::New)));
    assert_eq!(read(&node)["users"][0]["user"]["token"], "newer");
    let cluster = json!({"server": "https://[fd00::1]:443", "insecure-skip-tls-verify": true});
    assert_eq!(read(&node)["clusters"][0]["cluster"], cluster);
    assert_eq!(files::mode_of(&node.at("run/istio-cni-kubeconfig")).unwrap(), 0o640);
    assert_eq!(kubeconfig::token_expires(&node.settings), None);
    node.write("account/token", "e30.eyJleHAiOjE3OTUwMDAwMDB9.c2ln");
    assert!(node.pass().kubeconfig.is_ok());
    assert_eq!(kubeconfig::token_expires(&node.settings), Some(1_795_000_000));
    node.write("account/token", "newer");
    assert!(node.pass().kubeconfig.is_ok());
    fs::remove_file(node.at("account/token")).unwrap();
    let report = node.pass();
    let why = report.kubeconfig.unwrap_err().to_string();
    assert!(why.starts_with("failed to read ") && why.contains("account/token"), "{why}");
    assert!(report.conflist.is_ok(), "a token that is missing for a while takes nothing away");
    assert_eq!(read(&node)["users"][0]["user"]["token"], "newer");
}

#[test]
fn our_entry_waits_for_what_it_needs() {
    let mut node = Node::new();
    fs::remove_dir(node.at("bin")).unwrap();
    let report = node.pass();
    let why = report.binaries.unwrap_err().to_string();
    assert!(why.contains("/bin") && why.contains("mounted"), "{why}");
    assert!(matches!(report.conflist, Err(ConflistError::TooEarly)));
    assert_eq!(node.text("net.d/10.conflist"), PRIMARY);
    fs::create_dir(node.at("bin")).unwrap();
    assert!(node.pass().conflist.is_ok());
}

#[test]
fn a_run_directory_that_somebody_removed_is_made_again() {
    let mut node = Node::new();
    node.pass();
    fs::remove_dir_all(node.at("run")).unwrap();
    assert!(matches!(node.pass().kubeconfig, Ok(Written::Again)));
    assert!(kubeconfig::path(&node.settings).is_file());
}

#[test]
fn what_somebody_broke_is_healed_and_what_killed_writes_left_goes() {
    let mut node = Node::new();
    node.pass();
    for name in ["bin/istio-cni.tmp.12", "run/istio-cni-kubeconfig.tmp.34", "net.d/10.conflist.tmp.56"] {
        node.write(name, "half");
    }
    for name in ["bin/istio-cni", "net.d/10.conflist"] {
        node.write(name, PRIMARY);
    }
    assert!(node.pass().conflist.is_ok());
    assert_eq!(node.files(), ["bin/istio-cni", "net.d/10.conflist", "run/istio-cni-kubeconfig"]);
    assert_eq!(node.text("bin/istio-cni"), "plugin");
    fs::remove_dir_all(node.at("net.d")).unwrap();
    assert!(matches!(node.pass().conflist, Err(ConflistError::File(_))));
    fs::create_dir(node.at("net.d")).unwrap();
    assert!(matches!(node.pass().conflist, Err(ConflistError::NotRight(NotRight::NoPrimary, _))));
}

#[test]
fn what_is_written_beside_an_installation_is_left_to_its_writer() {
    let mut node = Node::new();
    node.write("run/backend.tmp.0123456789abcdef", "backend=nft-compat");
    node.pass();
    assert_eq!(node.text("run/backend.tmp.0123456789abcdef"), "backend=nft-compat");
}

#[test]
fn a_primary_behind_a_link_is_changed_where_it_is() {
    let mut node = Node::new();
    node.write("real", PRIMARY);
    fs::remove_file(node.at("net.d/10.conflist")).unwrap();
    symlink("../real", node.at("net.d/10.conflist")).unwrap();
    assert!(node.pass().conflist.is_ok());
    assert!(node.at("net.d/10.conflist").is_symlink());
    assert!(node.text("real").contains("istio-cni"));
    uninstall(&node.settings, BinaryRemoval::WhileUnused);
    assert!(node.at("net.d/10.conflist").is_symlink());
    assert_eq!(node.text("real"), PRIMARY);
}

#[test]
fn a_link_that_only_runtimes_may_be_able_to_follow_is_not_passed_over() {
    let mut node = Node::new();
    let link = node.at("net.d/05.conflist");
    for target in ["/nowhere/a.conflist", "../nowhere/a.conflist"] {
        symlink(target, &link).unwrap();
        let ConflistError::NotRight(NotRight::Denied(why), _) = node.pass().conflist.unwrap_err() else {
            panic!("{target}")
        };
        assert!(why.contains(target) && why.contains("05.conflist"), "{why}");
        assert_eq!(node.text("net.d/10.conflist"), PRIMARY);
        fs::remove_file(&link).unwrap();
    }
    for target in ["gone.conflist", "gone/a.conflist"] {
        symlink(target, &link).unwrap();
        assert_eq!(node.pass().conflist.unwrap(), "10.conflist", "nobody can follow that one");
        fs::remove_file(&link).unwrap();
    }
}

#[test]
fn leaving_leaves_the_node_as_it_was() {
    let mut node = Node::new();
    let before = node.files();
    node.pass();
    for name in ["run/agent.sock", "run/backend", "run/istio-cni.log", "bin/istio-cni.tmp.1", "bin/other"] {
        node.write(name, "");
    }
    let summary = uninstall(&node.settings, BinaryRemoval::WhileUnused);
    assert!(summary.errors.is_empty() && summary.kept.is_empty(), "{summary:?}");
    fs::remove_file(node.at("bin/other")).unwrap();
    assert_eq!((node.files(), node.text("net.d/10.conflist")), (before, PRIMARY.to_owned()));
    assert!(uninstall(&node.settings, BinaryRemoval::Always).done.is_empty(), "nothing is left to remove");
}

#[test]
fn what_cilium_set_aside_is_no_way_back() {
    let mut node = Node::new();
    node.pass();
    fs::rename(node.at("net.d/10.conflist"), node.at("net.d/10.conflist.cilium_bak")).unwrap();
    node.settings.chain.owned = true;
    node.write("net.d/05-cilium.conflist", PRIMARY);
    assert_eq!(node.pass().conflist.unwrap(), "02-istio-cni.conflist");
    let ours = "net.d/02-istio-cni.conflist";
    fs::rename(node.at(ours), node.at(&format!("{ours}.cilium_bak"))).unwrap();
    let summary = uninstall(&node.settings, BinaryRemoval::WhileUnused);
    assert!(summary.errors.is_empty() && summary.kept.is_empty(), "{summary:?}");
    assert_eq!(node.files(), ["net.d/05-cilium.conflist", "net.d/10.conflist.cilium_bak"]);
    assert_eq!(node.text("net.d/10.conflist.cilium_bak"), PRIMARY);
}

#[test]
fn the_binary_stays_while_a_del_needs_it() {
    let mut node = Node::new();
    node.pass();
    node.write("cache/results/n-1-eth0", r#"{"plugins":[{"type":"istio-cni"}]}"#);
    let summary = uninstall(&node.settings, BinaryRemoval::WhileUnused);
    assert!(summary.kept[0].contains("1 pods"), "{summary:?}");
    assert!(node.at("bin/istio-cni").exists() && !node.text("net.d/10.conflist").contains("istio-cni"));
    uninstall(&node.settings, BinaryRemoval::Always);
    assert!(!node.at("bin/istio-cni").exists());
}

#[test]
fn the_binary_stays_where_a_file_that_cannot_be_read_or_changed_names_it() {
    let no_utf8 = b"{\"type\":\"istio-cni\",\"name\":\"\xff\"}".as_slice();
    let multus = br#"{"type":"multus","delegates":[{"type":"istio-cni"}]}"#;
    for text in [no_utf8, multus] {
        let mut node = Node::new();
        node.pass();
        fs::write(node.at("net.d/20.conf"), text).unwrap();
        for binary in [BinaryRemoval::WhileUnused, BinaryRemoval::Always] {
            let summary = uninstall(&node.settings, binary);
            assert!(summary.named && summary.kept[0].contains("net.d/20.conf"), "{summary:?}");
            assert!(node.at("bin/istio-cni").exists() && node.text("net.d/10.conflist") == PRIMARY);
        }
    }
}

#[test]
fn credentials_that_nobody_could_use_replace_none() {
    let mut node = Node::new();
    node.installer.pass(&node.settings, &Permits::ALL);
    let before = node.text("run/istio-cni-kubeconfig");
    for (file, text) in [("token", "\n"), ("ca.crt", ""), ("ca.crt", "\n")] {
        let place = format!("account/{file}");
        let good = node.text(&place);
        node.write(&place, text);
        let report = node.installer.pass(&node.settings, &Permits::ALL);
        let error = report.kubeconfig.unwrap_err().to_string();
        assert!(error.contains(file), "{error}");
        assert_eq!(node.text("run/istio-cni-kubeconfig"), before);
        node.write(&place, &good);
    }
    assert!(matches!(node.installer.pass(&node.settings, &Permits::ALL).kubeconfig, Ok(Written::Not)));
    node.write("account/ca.crt", "no certificate");
    let report = node.installer.pass(&node.settings, &Permits::ALL);
    assert!(
        matches!(report.kubeconfig, Ok(Written::New)),
        "upstream's agent hands it on as well: {report:?}"
    );
}

/// A DaemonSet that surges: two versions, two tokens, one node.
#[test]
fn two_agents_of_two_versions_do_not_heal_each_other() {
    let mut old = Node::new();
    let mut settings = old.settings.clone();
    (settings.places.source_dir, settings.places.account_dir) = (old.at("source-2"), old.at("account-2"));
    for (name, text) in [
        ("source-2/istio-cni", "newer plugin"),
        ("account-2/token", "another"),
        ("account-2/ca.crt", &*AUTHORITY),
    ] {
        fs::create_dir_all(old.at(name).parent().unwrap()).unwrap();
        old.write(name, text);
    }
    fs::set_permissions(old.at("source-2/istio-cni"), fs::Permissions::from_mode(0o755)).unwrap();
    let (mut first, mut second) = (Claim::new(&old.at("run"), "old"), Claim::new(&old.at("run"), "new"));
    let mut new = Installer::default();
    let looks = |claim: &mut Claim, installer: &mut Installer, settings: &Settings| {
        (claim.stand() == InstallerRole::Installs).then(|| installer.pass(settings, &Permits::ALL))
    };
    let wrote = |report: &PassReport| {
        !matches!(
            (&report.binaries, &report.kubeconfig),
            (Ok(Written::Not) | Err(_), Ok(Written::Not) | Err(_))
        )
    };
    assert!(looks(&mut first, &mut old.installer, &old.settings).is_some_and(|report| wrote(&report)));
    assert!(looks(&mut second, &mut new, &settings).is_some_and(|report| wrote(&report)));
    for _ in 0..3 {
        assert!(looks(&mut first, &mut old.installer, &old.settings).is_none(), "it yields");
        assert!(looks(&mut second, &mut new, &settings).is_some_and(|report| !wrote(&report)));
    }
    assert_eq!(old.text("bin/istio-cni"), "newer plugin");
    drop(second);
    assert!(looks(&mut first, &mut old.installer, &old.settings).is_some_and(|report| wrote(&report)));
    assert_eq!(old.text("bin/istio-cni"), "plugin");
}

#[test]
fn a_link_under_a_name_of_ours_is_replaced_and_what_it_leads_to_stays() {
    let mut node = Node::new();
    node.pass();
    for name in OURS {
        node.write("elsewhere", "theirs");
        fs::remove_file(node.at(name)).unwrap();
        symlink(node.at("elsewhere"), node.at(name)).unwrap();
        node.pass();
        assert!(node.at(name).symlink_metadata().unwrap().is_file(), "{name}");
        assert_eq!(node.text("elsewhere"), "theirs");
    }
}

#[test]
fn what_somebody_replaced_is_written_again_unless_they_are_fought_over_it() {
    let mut node = Node::new();
    node.pass();
    for name in OURS {
        node.write(name, "theirs");
    }
    let report = node.pass();
    assert!(matches!((report.binaries, report.kubeconfig), (Ok(Written::Again), Ok(Written::Again))));
    for name in OURS {
        node.write(name, "theirs");
    }
    let held = Permits { files: Touch::Later("it is a fight".to_owned()), ..Permits::ALL };
    let report = node.installer.pass(&node.settings, &held);
    assert!(report.binaries.unwrap_err().to_string().contains("it is a fight"));
    assert!(report.kubeconfig.is_err() && report.conflist.is_ok());
    assert_eq!(node.text("bin/istio-cni"), "theirs");
    node.write("account/token", "newer");
    let report = node.installer.pass(&node.settings, &held);
    assert!(matches!(report.kubeconfig, Ok(Written::New)), "the plugin needs the new one");
}

#[test]
fn a_directory_under_a_temporarys_name_and_a_name_that_is_no_text_are_told_or_passed_over() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut node = Node::new();
    fs::create_dir(node.at("net.d/10.conflist.tmp.12")).unwrap();
    assert!(node.pass().conflist.is_ok());
    let name = std::ffi::OsStr::from_bytes(b"0\xff.conflist");
    fs::write(node.at("net.d").join(name), PRIMARY).unwrap();
    let error = node.pass().conflist.unwrap_err().to_string();
    assert!(error.contains("no UTF-8"), "{error}");
}
