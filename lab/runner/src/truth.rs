// SPDX-License-Identifier: Apache-2.0
//! The truth table's writers: the binaries under test, called on the node as a person or a runtime calls them, in the namespaces of the
//! table's own threads. And the pods that the plugin is called for.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::truth::data::Case;
use ::truth::{Backend, CommandLine, Refusal, Writer, net};
use anyhow::{Context as _, ensure};
use cluster::hand::{Network, PROMPT, Run, Writing};
use cluster::{CniAnswer, CniCall, LabError};
use nix::mount::{MsFlags, mount};
use redirect::Config;
use redirect::ruleset::Family;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::binaries::{PLUGIN, TOOL};
use crate::pod::{Pod, Proxy};
use crate::tier::{MESH_NAMESPACE, Tier};

/// The node, from the table's threads.
#[derive(Debug)]
pub struct Seat {
    pub tier: Arc<Tier>,
    pub runtime: Handle,
}

impl Seat {
    /// Path of the calling thread's network namespace.
    fn namespace() -> anyhow::Result<PathBuf> {
        let thread = fs::read_link("/proc/thread-self")?;
        Ok(Path::new("/proc").join(thread).join("ns/net"))
    }

    /// Name of the same namespace among those of pods: no program of a node sees the lab's threads.
    fn kept_namespace(&self) -> anyhow::Result<String> {
        let own = Self::namespace()?;
        let name = format!("table-{}", fs::metadata(&own)?.ino());
        let node = self.tier.node()?;
        let kept = node.paths()?.netns_dir.join(&name);
        if !kept.exists() {
            fs::File::create_new(&kept).with_context(|| kept.display().to_string())?;
            mount(Some(&own), &kept, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
        }
        Ok(name)
    }
}

fn done(answer: &CniAnswer) -> Result<(), Refusal> {
    match answer.exit {
        Some(0) => Ok(()),
        _ => Err(Refusal(format!("exit {:?}: {}{}", answer.exit, answer.stdout, answer.stderr))),
    }
}

/// `istio-iptables`.
#[derive(Debug)]
pub struct Tool {
    pub seat: Seat,
    /// Names the back end: Millrace's own flag.
    pub says_backend: bool,
    files: AtomicUsize,
}

impl Tool {
    #[must_use]
    pub fn new(seat: Seat) -> Self {
        Self { seat, says_backend: true, files: AtomicUsize::default() }
    }

    async fn run(
        &self,
        line: CommandLine,
        backend: Backend,
        network: Network,
    ) -> Result<CniAnswer, LabError> {
        let node = self.seat.tier.node()?;
        let hand = node.hand().await?;
        let words = [TOOL.to_owned()].into_iter().chain(line.arguments);
        let of_backend = ["--backend".to_owned(), backend.name().to_owned()];
        let words = words.chain(of_backend.into_iter().filter(|_| self.says_backend));
        let mut run = Run::new(network, words, PROMPT);
        let variables = line.environment.into_iter();
        run.environment = variables.map(|(key, value)| (key.to_owned(), value)).collect();
        if !line.resolvers.is_empty() {
            let number = self.files.fetch_add(1, Ordering::Relaxed);
            let path = node.directories().run_dir.join(format!("resolv.conf.{number}"));
            let text: String =
                line.resolvers.iter().map(|address| format!("nameserver {address}\n")).collect();
            hand.write(&path, text.as_bytes(), Writing::WHOLE).await?;
            run.resolv_conf = Some(path);
        }
        Ok(hand.run(run).await?)
    }
}

impl Writer for Tool {
    fn can_ask_for(&self, config: &Config) -> bool {
        CommandLine::of(config).is_some()
    }

    fn knows_names(&self) -> bool {
        true
    }

    fn program(&self, _: &str, config: &Config, backend: Backend) -> anyhow::Result<Result<(), Refusal>> {
        let line = CommandLine::of(config).context("no command line asks for it")?;
        let kept = self.seat.tier.node()?.directories().netns_dir.join(self.seat.kept_namespace()?);
        let network = Network::Kept(kept);
        let answer = self.seat.runtime.block_on(self.run(line, backend, network))?;
        Ok(done(&answer))
    }
}

/// `istio-cni`, called for pods that are in the API.
#[derive(Debug)]
pub struct Plugin {
    pub seat: Seat,
    /// Objects by name.
    pub pods: BTreeMap<String, Value>,
}

impl Plugin {
    fn add(&self, name: &str, backend: Backend) -> anyhow::Result<CniCall> {
        let node = self.seat.tier.node()?;
        let paths = node.paths()?;
        let network = node.network();
        let plugins = network["plugins"].as_array().context("the network has no plugins")?;
        let mut conf = plugins.iter().find(|plugin| plugin["type"] == PLUGIN).context("no plugin")?.clone();
        conf["cniVersion"] = network["cniVersion"].clone();
        conf["name"] = network["name"].clone();
        conf["millrace_backend"] = backend.name().into();
        let sandbox = paths.netns_dir.join(self.seat.kept_namespace()?).display().to_string();
        conf["prevResult"] = json!({
            "cniVersion": network["cniVersion"],
            "interfaces": [{ "name": net::OUTSIDE, "sandbox": sandbox }],
            "ips": [{ "address": format!("{}/24", net::pod(Family::V4)), "interface": 0 }],
        });
        let arguments = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={MESH_NAMESPACE};K8S_POD_NAME={name}");
        let env = [
            ("CNI_COMMAND", "ADD".to_owned()),
            ("CNI_CONTAINERID", format!("truth-{name}")),
            ("CNI_NETNS", sandbox),
            ("CNI_IFNAME", net::OUTSIDE.to_owned()),
            ("CNI_PATH", paths.bin_dir.display().to_string()),
            ("CNI_ARGS", arguments),
        ];
        let env = env.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Ok(CniCall { plugin: PLUGIN.to_owned(), env, stdin: conf.to_string().into_bytes() })
    }
}

impl Writer for Plugin {
    fn program(&self, case: &str, _: &Config, backend: Backend) -> anyhow::Result<Result<(), Refusal>> {
        let object = self.pods.get(case).with_context(|| format!("no pod {case:?}"))?;
        let call = self.add(case, backend)?;
        let answer = self.seat.runtime.block_on(async {
            // Of no node, so no kubelet starts it.
            self.seat.tier.apply(object.clone()).await?;
            self.seat.tier.node()?.call_plugin(call).await
        })?;
        Ok(done(&answer))
    }
}

/// A pod of `scenarios/truth/pods.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PodSpec {
    name: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    /// The proxy's environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    uid: Option<i64>,
    gid: Option<i64>,
    #[serde(default)]
    tproxy: bool,
}

impl PodSpec {
    fn pod(self) -> Pod {
        let mut pod = Pod::meshed(&self.name, MESH_NAMESPACE);
        let proxy = Proxy::default();
        let (uid, gid) = (self.uid.or(proxy.uid), self.gid.or(proxy.gid));
        pod.proxy = Some(Proxy { uid, gid, env: self.env, ..proxy });
        pod.annotations.extend(self.annotations);
        if self.tproxy {
            pod.intercept_by_tproxy();
        }
        pod
    }
}

/// The pods of the table, each with the configuration that it must get.
pub fn pods(file: &Path) -> anyhow::Result<(Vec<Case>, BTreeMap<String, Value>)> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let specs: Vec<PodSpec> =
        serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
    let addresses: Vec<IpAddr> = net::links().iter().map(|link| link.address.address).collect();
    let (mut cases, mut objects) = (Vec::new(), BTreeMap::new());
    for spec in specs {
        let name = spec.name.clone();
        let pod = spec.pod();
        cases
            .push(Case { config: pod.config(&addresses).with_context(|| name.clone())?, name: name.clone() });
        ensure!(objects.insert(name.clone(), pod.object()).is_none(), "two pods are called {name:?}");
    }
    Ok((cases, objects))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pod_of_the_table_has_a_configuration_of_its_own() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/truth/pods.yaml");
        let (cases, objects) = pods(&file).unwrap();
        assert_eq!(cases.len(), objects.len());
        for (at, case) in cases.iter().enumerate() {
            let twin = cases[..at].iter().find(|other| other.config == case.config);
            assert!(twin.is_none(), "{} is {}", case.name, twin.map_or("", |twin| &twin.name));
        }
    }
}
