// SPDX-License-Identifier: Apache-2.0
//! A pod's object as the node's plan: processes, their order, their users. Images are ignored: a container's command names a subcommand of
//! the workload binary, or a binary of the system under test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::{Files, PodName};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, Pod, PodDNSConfig, PodSecurityContext, PodSpec, SecurityContext,
};
use protocol::pod::{MIRROR_ANNOTATION, PodFacts};
use serde::Deserialize as _;
use serde_json::Value;

use crate::env::Sources;
use crate::error::Error;
use crate::netns::USER_RANGE;
use crate::probe::PlannedProbe;
use crate::process::Program;
use crate::rights::Rights;
use crate::unplayed;
use crate::volumes::{Content, MountPoint, Volume, places, volumes};

/// Paths of programs.
#[derive(Debug, Clone)]
pub struct Binaries {
    pub workload: PathBuf,
    /// Directory of the system under test.
    pub sut: PathBuf,
    /// Files and directories of the machine that its image has, beside its binaries.
    pub image: Vec<PathBuf>,
    /// Environment of its binaries beyond that of runtimes and pods. No record shows it.
    pub sut_env: BTreeMap<String, String>,
}

/// Role of a container in its pod's life cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerRole {
    /// Runs to its end before the next one starts.
    Init,
    /// A native sidecar: an init container that starts and stays.
    Sidecar,
    /// A usual container.
    Main,
}

#[derive(Debug, Clone)]
pub struct Planned {
    pub name: String,
    pub role: ContainerRole,
    /// Its image, as the object names it.
    pub image: String,
    /// Program.
    pub program: Program,
    /// Sources of its environment.
    pub env: Sources,
    /// Mounts of its pod's volumes.
    pub places: Vec<MountPoint>,
    /// Startup probe; without one it has started at once.
    pub startup: Option<PlannedProbe>,
    /// Readiness probe; without one it is ready while it runs.
    pub probe: Option<PlannedProbe>,
}

/// Containers that are restarted when they end (`restartPolicy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// All of them.
    Always,
    /// Those that failed.
    OnFailure,
    /// None.
    Never,
}

impl Restart {
    fn of(spec: Option<&str>) -> Self {
        match spec {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }
}

/// User namespace of a pod (`hostUsers`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Users {
    /// The node's.
    OfNode,
    /// Its own: a range of the node's UIDs, mapped to others inside.
    Own,
}

impl Users {
    /// A user and group of the pod, as the node numbers them.
    #[must_use]
    pub fn on_node(self, (uid, gid): (u32, u32)) -> (u32, u32) {
        match self {
            Self::OfNode => (uid, gid),
            Self::Own => (uid + USER_RANGE.0, gid + USER_RANGE.0),
        }
    }

    /// A program with its user mapped.
    #[must_use]
    pub fn of(self, program: Program) -> Program {
        let (uid, gid) = self.on_node((program.uid, program.gid));
        program.as_user(uid, gid)
    }
}

/// A pod as the node runs it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Namespace and name.
    pub pod: PodName,
    /// `metadata.uid`
    pub uid: String,
    /// UID for the runtime: of a static pod the one that the kubelet made up, which its object in the API has as an annotation. Empty if
    /// the runtime gets none.
    pub runtime_uid: String,
    /// Annotations, for plugins with that capability.
    pub annotations: BTreeMap<String, String>,
    /// Its node.
    pub node: String,
    /// Its service account.
    pub service_account: String,
    /// Restart policy.
    pub restart: Restart,
    /// Grace period.
    pub grace: Duration,
    pub volumes: Vec<Volume>,
    /// Host network.
    pub host_network: bool,
    /// It is never evicted.
    pub is_critical: bool,
    /// A token is mounted: it has an account other than `default`, and does not opt out.
    pub has_token: bool,
    /// User namespace.
    pub users: Users,
    /// Binary with a command that does nothing.
    pub workload: PathBuf,
    /// Containers in the order of their start.
    pub containers: Vec<Planned>,
    /// Content of its `/etc/resolv.conf`.
    pub resolv_conf: String,
    /// A part of it that is not played: it is not started then.
    pub unplayed: Option<String>,
    /// Facts that the agent's stand-in serves.
    pub facts: PodFacts,
}

/// Classes whose priority is that of critical pods (`SystemCriticalPriority`).
const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

impl Plan {
    /// Reads a pod's object.
    ///
    /// # Errors
    /// It is no pod.
    pub fn new(object: &Value, binaries: &Binaries) -> Result<Self, Error> {
        let facts = PodFacts::deserialize(object)?;
        let pod = Pod::deserialize(object)?;
        let spec = pod.spec.unwrap_or_default();
        let resolv_conf = resolv_conf(spec.dns_config.as_ref());
        let volumes = volumes(&spec);
        let has_token = has_token(&spec, &volumes);
        let unplayed = unplayed::of_pod(&spec);
        let grace = spec.termination_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let context = spec.security_context.unwrap_or_default();
        let users = if spec.host_users == Some(false) { Users::Own } else { Users::OfNode };
        let planned = |container: &Container, role| Planned {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            role,
            program: users.of(program(container, &context, binaries)),
            env: Sources::of(container),
            places: places(container),
            startup: PlannedProbe::of(container.startup_probe.as_ref(), ports(container)),
            probe: PlannedProbe::of(container.readiness_probe.as_ref(), ports(container)),
        };
        let init = spec.init_containers.iter().flatten().map(|container| {
            let stays = container.restart_policy.as_deref() == Some("Always");
            planned(container, if stays { ContainerRole::Sidecar } else { ContainerRole::Init })
        });
        let main = spec.containers.iter().map(|container| planned(container, ContainerRole::Main));
        Ok(Self {
            pod: PodName::new(&facts.metadata.namespace, &facts.metadata.name),
            uid: facts.metadata.uid.clone(),
            runtime_uid: facts
                .metadata
                .annotations
                .get(MIRROR_ANNOTATION)
                .unwrap_or(&facts.metadata.uid)
                .clone(),
            annotations: facts.metadata.annotations.clone(),
            node: spec.node_name.clone().unwrap_or_default(),
            service_account: spec.service_account_name.clone().unwrap_or_default(),
            restart: Restart::of(spec.restart_policy.as_deref()),
            grace: Duration::from_secs(grace.unwrap_or(30)),
            volumes,
            host_network: facts.spec.host_network,
            is_critical: spec.priority_class_name.as_deref().is_some_and(|name| CRITICAL.contains(&name)),
            has_token,
            users,
            workload: binaries.workload.clone(),
            containers: init.chain(main).collect(),
            resolv_conf,
            unplayed,
            facts,
        })
    }

    /// True if its containers have file systems of their own.
    #[must_use]
    pub fn is_rooted(&self) -> bool {
        self.has_token || self.volumes.iter().any(|volume| matches!(volume.content, Content::Host { .. }))
    }
}

/// True for a pod whose containers need their account's token. Under `default` nothing in the lab asks the API server.
fn has_token(spec: &PodSpec, volumes: &[Volume]) -> bool {
    let account = spec.service_account_name.as_deref();
    volumes.iter().any(|volume| volume.content == Content::Account)
        && account.is_some_and(|name| name != "default")
}

fn ports(container: &Container) -> &[ContainerPort] {
    container.ports.as_deref().unwrap_or_default()
}

/// As with `dnsPolicy: None`: the pod's own configuration only.
fn resolv_conf(dns: Option<&PodDNSConfig>) -> String {
    let servers = dns.and_then(|dns| dns.nameservers.as_ref());
    servers.into_iter().flatten().map(|server| format!("nameserver {server}\n")).collect()
}

/// True for a container to which runtimes leave the whole of `/proc`: a privileged one, or one that asks for it (`procMount`).
fn has_settings(context: Option<&SecurityContext>) -> bool {
    context.is_some_and(|context| {
        context.privileged == Some(true) || context.proc_mount.as_deref() == Some("Unmasked")
    })
}

fn writable_unless(is_read_only: bool) -> Files {
    if is_read_only { Files::ReadOnly } else { Files::Writable }
}

fn program(container: &Container, pod: &PodSecurityContext, binaries: &Binaries) -> Program {
    let mut words = container.command.iter().flatten().chain(container.args.iter().flatten()).peekable();
    let base = |word: &String| Path::new(word).file_name().map(PathBuf::from).unwrap_or_default();
    let first = words.peek().map(|word| base(word)).unwrap_or_default();
    let under_test = binaries.sut.join(&first);
    let mut program = if !first.as_os_str().is_empty() && under_test.is_file() {
        words.next();
        Program::new(&under_test, words.cloned())
    } else {
        if first == Path::new("workload") {
            words.next();
        }
        let mut args: Vec<String> = words.cloned().collect();
        if args.is_empty() {
            args.push("pause".to_owned());
        }
        Program::new(&binaries.workload, args)
    };
    let own = container.security_context.as_ref();
    let id =
        |own: Option<i64>, pods: Option<i64>| u32::try_from(own.or(pods).unwrap_or(0)).unwrap_or(u32::MAX);
    program.rights = Rights::of_container(own);
    program.files = writable_unless(own.and_then(|own| own.read_only_root_filesystem) == Some(true));
    program.settings = writable_unless(!has_settings(own));
    program.uid = id(own.and_then(|own| own.run_as_user), pod.run_as_user);
    program.gid = id(own.and_then(|own| own.run_as_group), pod.run_as_group);
    let literal = container.env.iter().flatten();
    program.env = literal.filter_map(|env| Some((env.name.clone(), env.value.clone()?))).collect();
    if program.path == under_test {
        program.env.extend(binaries.sut_env.clone());
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plan(spec: &Value) -> Plan {
        let sut = tempfile::tempdir().unwrap();
        std::fs::write(sut.path().join("istio-iptables"), "").unwrap();
        let sut_env = [("DEFECT".to_owned(), "x".to_owned())].into();
        let sut = sut.path().to_owned();
        let binaries = Binaries { workload: "/w".into(), sut, image: Vec::new(), sut_env };
        let pod = json!({ "metadata": { "name": "p", "namespace": "n", "uid": "u" }, "spec": spec });
        Plan::new(&pod, &binaries).unwrap()
    }

    #[test]
    fn containers_start_init_first_and_sidecars_stay() {
        let plan = plan(&json!({
            "initContainers": [{ "name": "i" }, { "name": "s", "restartPolicy": "Always" }],
            "containers": [{ "name": "m" }],
        }));
        let order: Vec<_> = plan.containers.iter().map(|c| (c.name.as_str(), c.role)).collect();
        assert_eq!(
            order,
            [("i", ContainerRole::Init), ("s", ContainerRole::Sidecar), ("m", ContainerRole::Main)]
        );
    }

    #[test]
    fn a_containers_user_wins_over_the_pods() {
        let plan = plan(&json!({
            "securityContext": { "runAsUser": 7, "runAsGroup": 8 },
            "containers": [{ "name": "a" }, { "name": "b", "securityContext": { "runAsUser": 9 } }],
        }));
        let users: Vec<_> = plan.containers.iter().map(|c| (c.program.uid, c.program.gid)).collect();
        assert_eq!(users, [(7, 8), (9, 8)]);
    }

    #[test]
    fn a_command_is_a_subcommand_or_a_binary_under_test() {
        let plan = plan(&json!({ "containers": [
            { "name": "a", "command": ["/usr/bin/workload", "app"], "args": ["--listen", "tcp:1"] },
            { "name": "b", "args": ["proxy", "sidecar"] },
            { "name": "c", "args": ["istio-iptables", "-p", "1"] },
            { "name": "d" },
        ]}));
        let programs: Vec<_> = plan.containers.iter().map(|c| &c.program).collect();
        assert_eq!(programs[0].args, ["app", "--listen", "tcp:1"]);
        assert_eq!(programs[1].args, ["proxy", "sidecar"]);
        assert!(programs[2].path.ends_with("istio-iptables"));
        assert_eq!(programs[2].args, ["-p", "1"]);
        assert_eq!(programs[2].env["DEFECT"], "x");
        assert!(programs[0].env.is_empty(), "what is not under test plays no defect");
        assert_eq!(programs[3].args, ["pause"]);
    }
}
