// SPDX-License-Identifier: Apache-2.0
//! A pod's sandbox: its network namespace and its place in the network.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster::profile::{FailedTeardown, Loopback, Namespaces};
use serde_json::Value;

use crate::cni::chain::{Attachment, Chain, ChainError};
use crate::cni::result::addresses;
use crate::error::Error;
use crate::netns::{self, Namespace, NamespaceRole};
use crate::pod::{Plan, Users};
use crate::process::{Process, Program};
use crate::view::View;

/// The capability by which containerd (`cni.WithCapability`, sandbox_run.go) and CRI-O (`newPodNetwork`, sandbox_network.go) hand a pod's annotations to plugins.
const ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";
/// The kubelet's annotation of each pod that it runs (`ConfigSourceAnnotationKey`).
const OF_KUBELET: &str = "kubernetes.io/config.source";

/// Paths for sandboxes.
#[derive(Debug)]
pub struct SandboxPaths<'a> {
    /// The node's own namespace.
    pub node: &'a Path,
    /// Directory of pods' namespaces.
    pub netns_dir: &'a Path,
    /// The same directory, as plugins see it.
    pub seen_as: &'a Path,
    /// Directory that nobody on the node sees, for namespaces that no file keeps there.
    pub aside: &'a Path,
    /// What a pause process sees: the node's processes, of which it is one.
    pub view: Arc<View>,
    /// Deadline of that process.
    pub deadline: Duration,
    /// The node's own addresses.
    pub addresses: &'a [IpAddr],
    /// `rp_filter` of the machine, which new namespaces inherit.
    pub rp_filter: u8,
}

/// A sandbox that is set up.
#[derive(Debug)]
pub struct Sandbox {
    /// Its own namespace; `None` on the host network.
    namespace: Option<Namespace>,
    netns: PathBuf,
    /// The pause process, if that is how the runtime knows the namespace. It ends with this value.
    pause: Option<Process>,
    attachment: Attachment,
    addresses: Vec<IpAddr>,
    further: Vec<(String, IpAddr)>,
    /// The runtime does not call DEL again.
    given_up: AtomicBool,
}

impl Sandbox {
    /// Makes the namespace and adds it to the network. `attempt` tells the sandboxes of one pod apart.
    ///
    /// # Errors
    /// The chain failed: nothing of the sandbox stays. Or the harness did.
    pub async fn create(
        plan: &Plan,
        attempt: u32,
        place: &SandboxPaths<'_>,
        chain: &Chain,
    ) -> Result<Self, ChainError> {
        if plan.host_network {
            let netns = place.node.to_owned();
            return Ok(Self {
                namespace: None,
                netns,
                pause: None,
                attachment: Attachment::default(),
                addresses: place.addresses.to_vec(),
                further: Vec::new(),
                given_up: AtomicBool::default(),
            });
        }
        let name = format!("cni-{}-{attempt}", plan.uid);
        let path = match chain.profile.namespaces {
            Namespaces::Kept => place.netns_dir.join(&name),
            Namespaces::OfPause => place.aside.join(&name),
        };
        let namespace = match plan.users {
            Users::OfNode => Namespace::create(&path, NamespaceRole::Pod).await?,
            Users::Own => Namespace::create_with_users(&path, NamespaceRole::Pod, &plan.workload).await?,
        };
        netns::filter_reverse_paths(&path, place.rp_filter).await?;
        let pause = match chain.profile.namespaces {
            Namespaces::Kept => None,
            Namespaces::OfPause => Some(pause(plan, place, &path).await?),
        };
        let of_pause =
            pause.as_ref().and_then(Process::number_on_node).map(|pid| format!("/proc/{pid}/ns/net").into());
        let attachment = attachment(plan, attempt, &of_pause.unwrap_or_else(|| place.seen_as.join(name)));
        if chain.profile.loopback == Loopback::First {
            netns::set_loopback_up(namespace.path()).await?;
        }
        let result = chain.add(&attachment).await?;
        if chain.profile.loopback == Loopback::Beside {
            // The worst of what may come.
            netns::set_loopback_up(namespace.path()).await?;
        }
        let (first, further): (Vec<_>, Vec<_>) =
            addresses(&result).into_iter().partition(|(name, _)| *name == attachment.ifname);
        let addresses = first.into_iter().map(|(_, address)| address).collect();
        let given_up = AtomicBool::default();
        Ok(Self { namespace: Some(namespace), netns: path, pause, attachment, addresses, further, given_up })
    }

    /// Takes it from the network. The namespace goes with this value, whatever the chain says: who cannot take no for an answer keeps it
    /// and asks again, and the runtime calls its plugins again, unless it is one that gives up.
    ///
    /// # Errors
    /// The chain failed, or the harness did.
    pub async fn remove(&self, chain: &Chain) -> Result<(), ChainError> {
        if self.namespace.is_none() || self.given_up.load(Ordering::Relaxed) {
            return Ok(());
        }
        let is_over = self.pause.as_ref().is_some_and(|pause| pause.exit().is_some());
        let removed = match is_over {
            false => chain.del(&self.attachment).await,
            // Nobody knows the namespace of a process that has ended.
            true => chain.del(&Attachment { netns: String::new(), ..self.attachment.clone() }).await,
        };
        let gives_up = removed.is_err() && chain.profile.failed_teardown == FailedTeardown::GivenUp;
        self.given_up.store(gives_up, Ordering::Relaxed);
        removed
    }

    /// Attachment after the loss of the namespace: a runtime still calls DEL with it. `None` on the host network.
    #[must_use]
    pub fn lose(self) -> Option<Attachment> {
        self.namespace.as_ref()?;
        Some(Attachment { netns: String::new(), ..self.attachment })
    }

    /// Path of the namespace of the pod's processes.
    #[must_use]
    pub fn netns(&self) -> &Path {
        &self.netns
    }

    /// Addresses of the pod, in the order of the result.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Addresses on its other interfaces, with their names.
    #[must_use]
    pub fn further(&self) -> &[(String, IpAddr)] {
        &self.further
    }

    /// Attachment; `None` on the host network.
    #[must_use]
    pub fn attachment(&self) -> Option<&Attachment> {
        self.namespace.as_ref().map(|_| &self.attachment)
    }
}

/// A process in the sandbox' namespace, among those of the node.
async fn pause(plan: &Plan, place: &SandboxPaths<'_>, netns: &Path) -> Result<Process, Error> {
    let program = Program { view: Some(Arc::clone(&place.view)), ..Program::new(&plan.workload, ["pause"]) };
    let pause = Process::start(&program, netns).await?;
    match pause.ready(place.deadline).await? {
        None => Ok(pause),
        Some(exit) => {
            Err(Error::Process { program: plan.workload.clone(), why: format!("ended with {exit:?}") })
        }
    }
}

fn attachment(plan: &Plan, attempt: u32, netns: &Path) -> Attachment {
    let hex: String = plan.uid.chars().filter(char::is_ascii_hexdigit).collect();
    let container_id = format!("{attempt:08x}{hex:0>56}");
    let args = [
        ("IgnoreUnknown", "1"),
        ("K8S_POD_NAMESPACE", &plan.pod.namespace),
        ("K8S_POD_NAME", &plan.pod.name),
        ("K8S_POD_INFRA_CONTAINER_ID", &container_id),
        ("K8S_POD_UID", &plan.runtime_uid),
    ];
    let passed = args.into_iter().filter(|(_, value)| !value.is_empty());
    let args = passed.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let annotations = plan.annotations.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    // The kubelet's own, which a static pod's file has already.
    let own = [(OF_KUBELET.to_owned(), Value::from("api"))];
    let annotations = own.into_iter().chain(annotations).collect();
    let capabilities = BTreeMap::from([(ANNOTATIONS.to_owned(), Value::Object(annotations))]);
    Attachment {
        container_id,
        netns: netns.display().to_string(),
        args,
        capabilities,
        ..Attachment::default()
    }
}
