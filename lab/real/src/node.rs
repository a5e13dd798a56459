// SPDX-License-Identifier: Apache-2.0
//! A node: a container runtime and a kubelet in a place of their own, with the paths that a node has by default.

use std::fs::{self, File};
use std::future::ready;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use apiserver::Subject;
use cluster::{Configuration, Issuer as _, Memory};
use futures::TryStreamExt as _;
use nix::errno::Errno;
use rtnetlink::new_connection;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::control::{self, Control, SERVICE};
use crate::error::Error;
use crate::family::families;
use crate::options::ClusterOptions;
use crate::place::Place;
use crate::program::Program;
use crate::programs::Programs;
use crate::{cgroups, front, network, quirks, registry};

/// Directory of configurations that are no container runtime's own.
const FILES: &str = "/etc/kubernetes";
/// Configuration of the kubelet.
const CONFIGURATION: &str = "/etc/kubernetes/kubelet.json";
/// Nobody answers there.
const DNS: &str = "10.96.0.10";
/// Resolvers of the node, for pods that take them (`dnsPolicy: Default`). The machine's `/etc/resolv.conf` may be a link to its own `/run`.
const RESOLVERS: &str = "/etc/kubernetes/resolv.conf";
/// A runtime that has its images to unpack may take a while on a busy machine.
const START: Duration = Duration::from_secs(60);

/// Number of a node, from 1; its addresses follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number(pub u8);

impl Number {
    pub(crate) fn name(self) -> String {
        format!("node-{}", self.0)
    }

    fn cgroup(self, options: &ClusterOptions) -> String {
        format!("{}/{}", options.cgroup, self.name())
    }

    /// By family.
    pub(crate) fn addresses(self) -> Vec<IpAddr> {
        let (four, six) =
            (Ipv4Addr::new(10, 77, self.0, 2), Ipv6Addr::new(0xfd00, 0x77, self.0.into(), 0, 0, 0, 0, 2));
        families(four.into(), six.into())
    }

    /// The router's, beside them.
    fn beside(self) -> Vec<IpAddr> {
        let (four, six) =
            (Ipv4Addr::new(10, 77, self.0, 1), Ipv6Addr::new(0xfd00, 0x77, self.0.into(), 0, 0, 0, 0, 1));
        families(four.into(), six.into())
    }

    /// Ranges of its pods, as the embedded nodes have them.
    fn pods(self) -> Vec<String> {
        families(format!("10.200.{}.0/24", self.0), format!("fd00:200:{}::/64", self.0))
    }
}

/// A running node; with it ends everything on it.
#[derive(Debug)]
pub struct Node {
    number: Number,
    runtime: Program,
    kubelet: Program,
    place: Place,
}

impl Node {
    /// Starts runtime and kubelet, which registers the node.
    ///
    /// # Errors
    /// A program ends, or is not ready in time.
    pub async fn start(number: Number, options: &ClusterOptions, control: &Control) -> Result<Self, Error> {
        let (name, programs) = (number.name(), &options.programs);
        let cgroup = number.cgroup(options);
        cgroups::make(Path::new(cgroups::MOUNTS), &cgroup)?;
        let place = Place::start(&name, &programs.workload, &options.directory.join(&name)).await?;
        link(&place, number, programs).await?;
        let multus = Subject { user: network::MULTUS, group: None };
        let multus = control.kubeconfig_of(multus, &control::server())?;
        programs.network.install(&place, number.pods(), &multus)?;
        if let Some(record) = &options.record {
            programs.network.record(&place, record)?;
        }
        configure(&place, number, control, &cgroup, programs)?;
        let (runtime, kubelet) = run(&place, number, options).await?;
        Ok(Self { number, runtime, kubelet, place })
    }

    /// Ends everything on it and starts it again: with what is on its disk, less its network configuration where that is lost.
    ///
    /// # Errors
    /// As for a start.
    pub async fn reboot(
        &mut self,
        options: &ClusterOptions,
        configuration: Configuration,
    ) -> Result<(), Error> {
        let (name, programs) = (self.number.name(), &options.programs);
        self.kubelet.kill().await?;
        self.runtime.kill().await?;
        self.place.end().await?;
        unlink(&name).await?;
        cgroups::clear(Path::new(cgroups::MOUNTS), &self.number.cgroup(options))?;
        let files = options.directory.join(&name);
        self.place = Place::start(&name, &programs.workload, &files).await?;
        if configuration == Configuration::IsLost {
            self.place.empty(network::LISTS)?;
        }
        link(&self.place, self.number, programs).await?;
        (self.runtime, self.kubelet) = run(&self.place, self.number, options).await?;
        Ok(())
    }

    /// Runs a program of the machine there, with one path of the node behind its words.
    ///
    /// # Errors
    /// It fails.
    pub async fn run(&self, program: &str, words: &[&str], path: &Path) -> Result<(), Error> {
        let mut program = Command::new(program);
        program.args(words).arg(path).stdin(Stdio::null());
        self.place.run(program, "").await
    }

    /// Starts its container runtime again.
    ///
    /// # Errors
    /// As for a start.
    pub async fn restart_runtime(&mut self, options: &ClusterOptions) -> Result<(), Error> {
        self.runtime.end().await?;
        self.runtime = runtime(&self.place, options).await?;
        Ok(())
    }

    /// Starts its kubelet again, which takes the node's memory to be enough, or short: it wants more than any node has, after a second. It does not
    /// start with a threshold without grace (`evictionHard`) of more than there is, which is taken from what pods may ask for.
    ///
    /// # Errors
    /// As for a start.
    pub async fn set_memory(&mut self, memory: Memory, options: &ClusterOptions) -> Result<(), Error> {
        let path = self.place.find(CONFIGURATION);
        let text = fs::read(&path).map_err(Error::file("read", &path))?;
        let mut configuration: Value = serde_json::from_slice(&text)
            .map_err(|error| Error::Other("read the configuration of a kubelet", error.to_string()))?;
        let wanted = |what: &str| match memory {
            Memory::Enough => json!({}),
            Memory::Short => json!({ "memory.available": what }),
        };
        configuration["evictionSoft"] = wanted("1Pi");
        configuration["evictionSoftGracePeriod"] = wanted("1s");
        self.place.write(CONFIGURATION, configuration.to_string())?;
        self.restart_kubelet(options).await
    }

    /// Starts its kubelet again.
    ///
    /// # Errors
    /// As for a start.
    pub async fn restart_kubelet(&mut self, options: &ClusterOptions) -> Result<(), Error> {
        self.kubelet.end().await?;
        self.kubelet = kubelet(&self.place, self.number, options).await?;
        Ok(())
    }

    /// Starts again what has ended.
    ///
    /// # Errors
    /// As for a start.
    pub(crate) async fn restart_ended(&mut self, options: &ClusterOptions) -> Result<(), Error> {
        if self.runtime.goes_on().is_err() {
            self.runtime = runtime(&self.place, options).await?;
        }
        if self.kubelet.goes_on().is_err() {
            self.kubelet = kubelet(&self.place, self.number, options).await?;
        }
        Ok(())
    }

    #[must_use]
    pub fn name(&self) -> String {
        self.number.name()
    }

    /// Checks that its programs run.
    ///
    /// # Errors
    /// One has ended.
    pub(crate) fn goes_on(&mut self) -> Result<(), Error> {
        self.runtime.goes_on()?;
        self.kubelet.goes_on()
    }
}

async fn run(place: &Place, number: Number, options: &ClusterOptions) -> Result<(Program, Program), Error> {
    Ok((runtime(place, options).await?, kubelet(place, number, options).await?))
}

/// Starts the container runtime, and waits until it listens.
async fn runtime(place: &Place, options: &ClusterOptions) -> Result<Program, Error> {
    let of = &options.programs.runtime;
    let socket = place.find(of.socket());
    // Of one that ran before.
    let _ = fs::remove_file(&socket);
    let mut runtime =
        Program::start(Some(place), of.program(), &[], &of.directories(), &options.logs).await?;
    runtime.until("listens", START, || ready(socket.exists().then_some(()))).await?;
    Ok(runtime)
}

async fn kubelet(place: &Place, number: Number, options: &ClusterOptions) -> Result<Program, Error> {
    let beside = options.programs.runtime.directories();
    Program::start(Some(place), &options.programs.kubelet, &arguments(number), &beside, &options.logs).await
}

/// Joins the node's network to the lab's, and translates the address of the API's service, as kube-proxy does: to the front before it.
async fn link(place: &Place, number: Number, programs: &Programs) -> Result<(), Error> {
    let lab = Path::new("/proc/self/ns/net");
    let lab = File::open(lab).map_err(Error::file("open", lab))?;
    let mut wire = Command::new(&programs.workload);
    // The lab's own network has no path in the node.
    wire.args(["wire", "--to", "/proc/self/fd/0", "--name", &number.name()]).stdin(lab);
    for (own, beside) in number.addresses().into_iter().zip(number.beside()) {
        wire.args(["--lane", &format!("{own}={beside}")]);
    }
    for range in number.pods() {
        wire.args(["--behind", &range]);
    }
    let service = json!({
        "transport": "tcp",
        "from": format!("{SERVICE}:443"),
        "to": format!("{}:{}", IpAddr::from(control::ADDRESS), front::PORT),
    });
    wire.args(["--translate", &json!({ "services": [service], "masqueraded": [] }).to_string()]);
    place.run(wire, "").await
}

/// Removes the lab's end of a node's link: the kernel does it as well, some time after the node's namespace has gone.
async fn unlink(name: &str) -> Result<(), Error> {
    let (connection, handle, _) = new_connection().map_err(|e| Error::System("open a netlink socket", e))?;
    let connection = tokio::spawn(connection);
    let found = handle.link().get().match_name(name.to_owned()).execute().try_next().await;
    let removed = match found {
        Ok(Some(link)) => handle.link().del(link.header.index).execute().await,
        // There is none any more.
        _ => Ok(()),
    };
    connection.abort();
    match removed {
        Err(rtnetlink::Error::NetlinkError(error)) if error.raw_code() == -(Errno::ENODEV as i32) => Ok(()),
        removed => Ok(removed?),
    }
}

fn configure(
    place: &Place,
    number: Number,
    control: &Control,
    cgroup: &str,
    programs: &Programs,
) -> Result<(), Error> {
    let authority = &control.authority;
    let name = number.name();
    let user = format!("system:node:{name}");
    let of = Subject { user: &user, group: Some("system:nodes") };
    let names: Vec<_> = [name].into_iter().chain(number.addresses().iter().map(IpAddr::to_string)).collect();
    let serving = authority.issue(&names, None)?;
    let kubeconfig = control.kubeconfig_of(of, &control::server())?;
    place.write(&format!("{FILES}/ca.crt"), authority.ca())?;
    place.write(&format!("{FILES}/kubelet.crt"), serving.certificate)?;
    place.write(&format!("{FILES}/kubelet.key"), serving.key)?;
    place.write(&format!("{FILES}/kubelet.kubeconfig"), kubeconfig)?;
    place.write(RESOLVERS, format!("nameserver {DNS}\n"))?;
    let configuration = kubelet_configuration(cgroup, programs.runtime.socket(), control.media_type());
    place.write(CONFIGURATION, configuration)?;
    programs.runtime.configure(place, (control::ADDRESS, registry::PORT).into())
}

/// Of a kubelet.
fn arguments(number: Number) -> Vec<String> {
    vec![
        format!("--config={CONFIGURATION}"),
        format!("--kubeconfig={FILES}/kubelet.kubeconfig"),
        format!("--hostname-override={}", number.name()),
        format!(
            "--node-ip={}",
            number.addresses().iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
        ),
        "--v=2".to_owned(),
    ]
}

/// `KubeletConfiguration`, as JSON. Where it may not lower its own out-of-memory score it would end, unless it takes itself to be in a user
/// namespace.
fn kubelet_configuration(cgroup: &str, socket: &str, media_type: &str) -> String {
    let x509 = json!({ "clientCAFile": format!("{FILES}/ca.crt") });
    let evict = json!({
        "memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%",
    });
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",
        "authentication": { "anonymous": { "enabled": false }, "webhook": { "enabled": true }, "x509": x509 },
        "authorization": { "mode": "Webhook" },
        "tlsCertFile": format!("{FILES}/kubelet.crt"),
        "tlsPrivateKeyFile": format!("{FILES}/kubelet.key"),
        "containerRuntimeEndpoint": format!("unix://{socket}"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{cgroup}"),
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
        "resolvConf": RESOLVERS,
        "contentType": media_type,
        // From 1.35 on it is true unless somebody says so.
        "failCgroupV1": false,
        "failSwapOn": false,
        "featureGates": { "KubeletInUserNamespace": !quirks::lowers_oom_score() },
        "maxPods": 200,
        "evictionHard": evict,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "5s",
        "serializeImagePulls": false,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_reads_the_resolvers_of_its_node_and_not_those_of_the_machine() {
        let text = kubelet_configuration("cnilab-1/node-1", "/run/crio/crio.sock", "application/json");
        let configuration: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(configuration["resolvConf"], RESOLVERS);
    }
}
