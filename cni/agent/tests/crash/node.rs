// SPDX-License-Identifier: Apache-2.0
//! A node in a directory: the root of the case's process, with the libraries of the real one.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::mount::umount;
use rig::mounts::{self, bind};
use serde_json::Value;

const AGENT: &str = "/install-cni";
const SHIPPED: &str = "/opt/cni/bin/istio-cni";
const BINARY: &str = "/host/opt/cni/bin/istio-cni";
pub(crate) const NET_DIR: &str = "/host/etc/cni/net.d";
const RUN_DIR: &str = "/var/run/istio-cni";
/// Backing directory of the mount.
const VOLUME: &str = "/node-net.d";
const KUBECONFIG: &str = "/var/run/istio-cni/istio-cni-kubeconfig";
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

const SINGLE: &str = r#"{"cniVersion":"0.4.0","name":"lab","type":"ptp","mtu":1400}"#;
pub(crate) const LIST: &str =
    r#"{"cniVersion":"1.0.0","name":"lab","plugins":[{"type":"ptp","mtu":1400},{"type":"portmap"}]}"#;

/// Longer than any start takes.
const LONG: Duration = Duration::from_secs(20);

/// Initial configuration of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Primary {
    /// `10-lab.conf`
    Single,
    /// `10-lab.conflist`
    List,
}

/// The node: its root is `/` of this process.
pub(crate) struct Node(());

impl Node {
    /// Makes `dir` the root of this process.
    pub(crate) fn enter(dir: &Path) -> Self {
        mounts::tmpfs(dir);
        for name in ["usr", "proc", "dev", "lib", "lib64", "bin"] {
            let (real, here) = (Path::new("/").join(name), dir.join(name));
            if let Ok(target) = fs::read_link(&real) {
                symlink(target, here).unwrap();
            } else if real.is_dir() {
                fs::create_dir(&here).unwrap();
                bind(&real, &here);
            }
        }
        let agent = dir.join(AGENT.trim_start_matches('/'));
        fs::write(&agent, "").unwrap();
        bind(env!("CARGO_BIN_EXE_install-cni"), agent);
        nix::unistd::chroot(dir).unwrap();
        std::env::set_current_dir("/").unwrap();
        for directory in ["/opt/cni/bin", ACCOUNT, "/tmp"] {
            fs::create_dir_all(directory).unwrap();
        }
        // More than one write.
        fs::write(SHIPPED, [b'x'; 20_000]).unwrap();
        fs::set_permissions(SHIPPED, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(Path::new(ACCOUNT).join("token"), "token").unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let authority = rcgen::CertificateParams::default().self_signed(&key).unwrap().pem();
        fs::write(Path::new(ACCOUNT).join("ca.crt"), authority).unwrap();
        Self(())
    }

    /// A node without configuration.
    pub(crate) fn clear(&self) {
        for directory in ["/host", RUN_DIR] {
            let _ = fs::remove_dir_all(directory);
        }
        for directory in [NET_DIR, "/host/opt/cni/bin", RUN_DIR] {
            fs::create_dir_all(directory).unwrap();
        }
    }

    /// Configuration of the primary CNI.
    pub(crate) fn primary(&self, primary: Primary) {
        let (name, text) = match primary {
            Primary::Single => ("10-lab.conf", SINGLE),
            Primary::List => ("10-lab.conflist", LIST),
        };
        fs::write(Path::new(NET_DIR).join(name), text).unwrap();
    }

    /// Primary and our installation.
    pub(crate) fn install(&self) {
        self.primary(Primary::List);
        self.start_until_installed("at first");
        // Of a write that was killed long ago.
        fs::write(Path::new(NET_DIR).join("10-lab.conflist.tmp.0123456789abcdef"), "{").unwrap();
    }

    /// Starts the agent, waits until it has installed, and kills it.
    pub(crate) fn start_until_installed(&self, what: &str) {
        let mut agent = self.installed_by(what);
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    /// An agent that has installed.
    #[expect(
        clippy::disallowed_methods,
        reason = "what it waits for is the state of several directories, until a deadline"
    )]
    pub(crate) fn installed_by(&self, what: &str) -> Child {
        let mut agent = agent().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begin = Instant::now();
        let done = loop {
            match self.installed() {
                Err(why) if begin.elapsed() > LONG => break Err(why),
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
                Ok(()) => break Ok(()),
            }
        };
        if let Err(why) = done {
            agent.kill().unwrap();
            agent.wait().unwrap();
            panic!("{what}, and started again: {why}");
        }
        agent
    }

    /// The configuration directory is a mount, as in a container.
    pub(crate) fn mount_net_dir(&self) -> Volume {
        fs::create_dir(VOLUME).unwrap();
        bind(VOLUME, NET_DIR);
        Volume(())
    }

    /// Checks the node after a kill.
    pub(crate) fn check(&self, what: &str) {
        let plugins = network().unwrap_or_else(|why| panic!("{what}: a runtime finds no network: {why}"));
        if plugins.iter().any(|plugin| plugin == "istio-cni") {
            assert!(is_whole_binary(), "{what}: a configuration names a plugin that is not there");
            assert!(
                fs::read(KUBECONFIG).is_ok_and(|text| is_kubeconfig(&text)),
                "{what}: without credentials"
            );
        }
    }

    /// Fails unless the installation is complete, and nothing else is there.
    pub(crate) fn installed(&self) -> Result<(), String> {
        if network()?.last().is_none_or(|last| last != "istio-cni") {
            return Err("istio-cni is not the last of the first list".to_owned());
        }
        if !is_whole_binary() || !fs::read(KUBECONFIG).is_ok_and(|text| is_kubeconfig(&text)) {
            return Err("the binary or the credentials are not there".to_owned());
        }
        let known = [
            "istio-cni",
            "10-lab.conflist",
            "10-lab.conf",
            "10-lab-istio-cni.conflist",
            "istio-cni-kubeconfig",
            "backend",
            "installer",
            "agent.sock",
            "log.sock",
        ];
        only(&known)
    }

    /// Fails unless nothing of ours is left.
    pub(crate) fn cleaned(&self) -> Result<(), String> {
        let plugins = network()?;
        if plugins != ["ptp", "portmap"] {
            return Err(format!("the network is {plugins:?}"));
        }
        only(&["10-lab.conflist"])
    }
}

/// The agent, as the node's DaemonSet runs it, without an API server. There is no API server.
pub(crate) fn agent() -> Command {
    let mut agent = Command::new(AGENT);
    agent.env_clear().env("KUBERNETES_SERVICE_HOST", "192.0.2.1").env("KUBERNETES_SERVICE_PORT", "443");
    agent.env("PATH", "/usr/sbin:/usr/bin").env("NODE_NAME", "node");
    agent
}

/// Command of the uninstall.
pub(crate) fn purge() -> Command {
    let mut agent = agent();
    agent.arg("--purge");
    agent
}

/// Mounted directory of the node.
pub(crate) struct Volume(());

impl Volume {
    /// The directory is deleted; the mount is an orphan.
    pub(crate) fn delete(&self) {
        fs::remove_dir_all(VOLUME).unwrap();
    }

    /// The directory has another name; the mount shows it all the same.
    pub(crate) fn move_away(&self) {
        fs::rename(VOLUME, format!("{VOLUME}.bak")).unwrap();
    }

    /// It is created again, and mounted anew, as for another container.
    pub(crate) fn make_again(self) -> Self {
        umount(NET_DIR).unwrap();
        fs::create_dir(VOLUME).unwrap();
        bind(VOLUME, NET_DIR);
        self
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = umount(NET_DIR);
    }
}

/// Exit status of an agent that ends by itself.
#[expect(
    clippy::disallowed_methods,
    reason = "the standard library waits for a child without a deadline only"
)]
pub(crate) fn ends(agent: &mut Child) -> ExitStatus {
    let begin = Instant::now();
    loop {
        match agent.try_wait().unwrap() {
            Some(ended) => return ended,
            None if begin.elapsed() > LONG => {
                agent.kill().unwrap();
                agent.wait().unwrap();
                panic!("the agent goes on");
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn is_whole_binary() -> bool {
    let mode = |path: &str| fs::metadata(path).map(|found| found.permissions().mode()).ok();
    fs::read(BINARY).is_ok_and(|bytes| bytes == fs::read(SHIPPED).unwrap()) && mode(BINARY) == mode(SHIPPED)
}

fn is_kubeconfig(text: &[u8]) -> bool {
    serde_json::from_slice::<Value>(text).is_ok_and(|config| config["users"][0]["user"]["token"] == "token")
        || String::from_utf8_lossy(text).contains("current-context: istio-cni-context")
}

pub(crate) fn files(directory: &str) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// Fails on files of other names.
fn only(known: &[&str]) -> Result<(), String> {
    let all = [NET_DIR, "/host/opt/cni/bin", RUN_DIR].into_iter().flat_map(files);
    let unknown: Vec<_> =
        all.filter(|path| !known.iter().any(|name| path.file_name().is_some_and(|is| is == *name))).collect();
    if unknown.is_empty() { Ok(()) } else { Err(format!("there are {unknown:?}")) }
}

/// The plugins of the first network, as a runtime finds it. Nobody but the agent wrote anything, so a broken file is its own.
fn network() -> Result<Vec<String>, String> {
    let is_read = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "conf" || kind == "conflist");
    let mut paths: Vec<_> = files(NET_DIR).into_iter().filter(is_read).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in &paths {
        let text = fs::read(path).map_err(|error| error.to_string())?;
        let broken = || format!("{} is broken: {}", path.display(), String::from_utf8_lossy(&text));
        let network: Value = serde_json::from_slice(&text).map_err(|_| broken())?;
        let single = path.extension().is_some_and(|kind| kind == "conf");
        let plugins = if single {
            vec![network.clone()]
        } else {
            network["plugins"].as_array().cloned().unwrap_or_default()
        };
        let kinds: Option<Vec<String>> =
            plugins.iter().map(|plugin| Some(plugin["type"].as_str()?.to_owned())).collect();
        let kinds = kinds.filter(|kinds| !kinds.is_empty()).ok_or_else(broken)?;
        if network["name"] != "lab" || plugins[0]["mtu"] != 1400 {
            return Err(broken());
        }
        found.push(kinds);
    }
    found.into_iter().next().ok_or_else(|| "there is none".to_owned())
}
