// SPDX-License-Identifier: Apache-2.0
//! A run's connection to a cluster: what it may do there, the node that it uses, the hand on that node, and the end of everything that the
//! run made.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hand::Client as Hand;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{AttachParams, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::{Value, json};

use crate::error::{Error, TIER};
use crate::objects;
use crate::watch::{until, until_gone};

/// Label of every namespace that a run makes; its value is the run's name.
pub const LABEL: &str = "cnilab.millrace.dev/run";

/// Pod of the hand.
const HAND: &str = "hand";

/// Permissions that a run needs: verb, group and resource.
const NEEDED: [(&str, &str, &str); 9] = [
    ("create", "", "namespaces"),
    ("delete", "", "namespaces"),
    ("list", "", "nodes"),
    ("create", "", "pods"),
    ("delete", "", "pods"),
    ("watch", "", "pods"),
    ("watch", "", "events"),
    ("get", "", "pods/log"),
    ("create", "", "pods/exec"),
];

/// A run that has a cluster to itself, for one scenario at a time: namespaces have the names that scenarios give them, a scenario may deploy the
/// node agent, and changes what it wants on the node.
#[derive(Debug, Clone)]
pub struct Whole {
    /// Image of a proxy, with `istio-iptables` in its `PATH`.
    pub proxy: String,
}

/// Options of a session.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    pub kubeconfig: PathBuf,
    /// `None` for a guest, which makes pods in namespaces of its own.
    pub whole: Option<Whole>,
    /// Image with the lab's `workload` binary in its `PATH`.
    pub image: String,
    /// Name of the run, unique among those of a cluster.
    pub run: String,
    /// Deadline of the start and of the end of what the run makes.
    pub deadline: Duration,
    /// Deadline of an exchange of packets.
    pub exchange: Duration,
}

/// A run's connection.
#[derive(Clone)]
pub struct Session {
    pub(crate) client: Client,
    pub(crate) options: SessionOptions,
    pub(crate) node: String,
    pub(crate) hand: Hand,
    /// The server's version and the node's kernel.
    evidence: String,
    scenarios: Arc<AtomicU32>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Session")
            .field("options", &self.options)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Connects, checks every permission before anything is made, and puts the hand on the first node that is ready.
    ///
    /// # Errors
    /// The kubeconfig is wrong, a permission is missing, no node is ready, or the hand's pod does not run. What was made is removed.
    pub async fn open(options: SessionOptions) -> Result<Self, Error> {
        let client = connect(&options.kubeconfig).await?;
        permitted(&client).await?;
        let version = client.apiserver_version().await.map_err(Error::api("ask for the server's version"))?;
        let node = ready_node(&client).await?;
        let kernel = node.status.as_ref().and_then(|status| status.node_info.clone()).unwrap_or_default();
        let evidence = format!(
            "API server {}, node {} with kernel {} and {}",
            version.git_version,
            node.name_any(),
            kernel.kernel_version,
            kernel.container_runtime_version,
        );
        let (node, own) = (node.name_any(), own_namespace(&options.run));
        let made = async {
            make_namespace(&client, &own, &options.run).await?;
            place_hand(&client, &own, &node, &options).await
        };
        match made.await {
            Ok(hand) => Ok(Self { client, options, node, hand, evidence, scenarios: Arc::default() }),
            Err(error) => {
                // The first error says more.
                let _ = remove(&client, &options).await;
                Err(error)
            }
        }
    }

    /// Versions of server, kernel and runtime, for reports.
    #[must_use]
    pub fn evidence(&self) -> &str {
        &self.evidence
    }

    /// A number that no other scenario of the run has.
    pub(crate) fn number(&self) -> u32 {
        self.scenarios.fetch_add(1, Ordering::Relaxed)
    }

    /// Removes every namespace of the run, and waits until they are gone.
    ///
    /// # Errors
    /// They are not, before the deadline.
    pub async fn end(&self) -> Result<(), Error> {
        remove(&self.client, &self.options).await
    }
}

fn own_namespace(run: &str) -> String {
    format!("cnilab-{run}")
}

/// Removes what runs left that were killed: every namespace with [`LABEL`], those of runs that go on as well, and what belongs to no namespace.
/// Waits until the namespaces are gone, and returns what is gone, by kind and name.
///
/// # Errors
/// The kubeconfig is wrong, a namespace cannot be deleted, or does not go within `deadline`.
pub async fn clean(kubeconfig: &Path, deadline: Duration) -> Result<Vec<String>, Error> {
    let client = connect(kubeconfig).await?;
    let namespaces = remove_labelled(&client, LABEL, deadline).await?;
    let mut gone: Vec<_> = namespaces.into_iter().map(|name| format!("namespace {name}")).collect();
    gone.extend(objects::remove_cluster_wide(&client, LABEL).await?);
    Ok(gone)
}

async fn connect(kubeconfig: &Path) -> Result<Client, Error> {
    let path = kubeconfig.display().to_string();
    let failed = |why: String| Error::Kubeconfig { path: path.clone(), why };
    let read = Kubeconfig::read_from(kubeconfig).map_err(|error| failed(error.to_string()))?;
    let chosen = KubeConfigOptions::default();
    let config =
        Config::from_custom_kubeconfig(read, &chosen).await.map_err(|error| failed(error.to_string()))?;
    Client::try_from(config).map_err(|error| failed(error.to_string()))
}

async fn permitted(client: &Client) -> Result<(), Error> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    for (verb, group, resource) in NEEDED {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes =
            json!({ "verb": verb, "group": group, "resource": resource, "subresource": subresource });
        let review = from(json!({ "spec": { "resourceAttributes": attributes } }))?;
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(Error::api("ask what the user may do"))?;
        if !answer.status.is_some_and(|status| status.allowed) {
            let slash = if subresource.is_empty() { "" } else { "/" };
            return Err(Error::Denied(format!("{verb} {resource}{slash}{subresource} in any namespace")));
        }
    }
    Ok(())
}

/// An object of a type of the API.
pub(crate) fn from<T: serde::de::DeserializeOwned>(object: Value) -> Result<T, Error> {
    Ok(serde_json::from_value(object)?)
}

async fn ready_node(client: &Client) -> Result<Node, Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut all = nodes.list(&ListParams::default()).await.map_err(Error::api("list nodes"))?.items;
    all.sort_by_key(Node::name_any);
    let ready = |node: &Node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
        !unschedulable
            && conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True")
    };
    all.into_iter().find(ready).ok_or_else(|| Error::Missing("node that is ready".to_owned()))
}

pub(crate) async fn make_namespace(client: &Client, name: &str, run: &str) -> Result<(), Error> {
    // The hand is privileged, and pods of the mesh have whatever the scenario gives them.
    let labels = json!({ LABEL: run, "pod-security.kubernetes.io/enforce": "privileged" });
    let namespace = from(json!({ "metadata": { "name": name, "labels": labels } }))?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let made = namespaces.create(&PostParams::default(), &namespace).await;
    made.map(drop).map_err(Error::api(format!("make namespace {name}")))
}

async fn place_hand(client: &Client, own: &str, node: &str, options: &SessionOptions) -> Result<Hand, Error> {
    let pod = from(json!({
        "metadata": { "name": HAND },
        "spec": {
            "nodeName": node,
            "hostNetwork": true,
            "hostPID": true,
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{
                "name": HAND,
                "image": options.image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["workload", "pause"],
                "securityContext": { "privileged": true, "runAsUser": 0 },
            }],
        },
    }))?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), own);
    pods.create(&PostParams::default(), &pod).await.map_err(Error::api("make the hand's pod"))?;
    let what = || format!("the start of pod {own}/{HAND} with image {}", options.image);
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    until(&pods, HAND, what, options.deadline, runs).await?;
    let streams = AttachParams::default().stdin(true).stdout(true).stderr(false);
    let attached = pods.exec(HAND, ["workload", "hand"], &streams).await;
    let mut attached = attached.map_err(Error::api(format!("run a program in pod {own}/{HAND}")))?;
    let (Some(from), Some(to)) = (attached.stdout(), attached.stdin()) else {
        return Err(Error::Hand { node: node.to_owned(), why: "its streams are not there".to_owned() });
    };
    let hand = Hand::over(node, from, to, attached).await;
    let hand = hand.map_err(|error| Error::Hand { node: node.to_owned(), why: error.to_string() })?;
    // The first process of the node sees its files, the pod those of its image.
    let of_node = |path: &Path| Path::new("/proc/1/root").join(path.strip_prefix("/").unwrap_or(path));
    let hand = hand.with_places(of_node);
    Ok(if options.whole.is_some() { hand } else { hand.that_only_looks(TIER) })
}

/// Removes every namespace of a run, and waits until they are gone.
async fn remove(client: &Client, options: &SessionOptions) -> Result<(), Error> {
    remove_labelled(client, &format!("{LABEL}={}", options.run), options.deadline).await.map(drop)
}

async fn remove_labelled(client: &Client, labels: &str, deadline: Duration) -> Result<Vec<String>, Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let found = namespaces.list(&ListParams::default().labels(labels)).await;
    let found = found.map_err(Error::api("list namespaces"))?.items;
    for namespace in &found {
        gone(client, namespace, deadline).await?;
    }
    Ok(found.iter().map(Namespace::name_any).collect())
}

pub(crate) async fn gone(client: &Client, namespace: &Namespace, deadline: Duration) -> Result<(), Error> {
    let name = namespace.name_any();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.delete(&name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
        deleted => deleted.map(drop).map_err(Error::api(format!("delete namespace {name}")))?,
    }
    until_gone(&namespaces, namespace, || format!("the end of namespace {name}"), deadline).await
}
