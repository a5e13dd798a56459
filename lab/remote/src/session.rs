// SPDX-License-Identifier: Apache-2.0
//! A run's connection to a cluster: what it may do there, the nodes that it uses, and the end of everything that the run made.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cluster::{DAEMONSET, Front, Issuer, Leftovers, Machines};
use futures::future::join_all;
use hand::Client as Hand;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tower::timeout::TimeoutLayer;

use crate::baseline::Baseline;
use crate::cordon;
use crate::error::Error;
use crate::feed::Feed;
use crate::hands::{self, Hands};
use crate::objects::{self, from, unless_gone};
use crate::options::{Access, SessionOptions};
use crate::rights::permitted;
use crate::watch::until_gone;

/// Longest wait for the begin of an answer; a watch, a log or a stream may then go on. A server gives up its own work after 60 s (`--request-timeout`).
const SILENCE: Duration = Duration::from_secs(90);

/// Label of every namespace that a run makes; its value is the run's name.
pub const LABEL: &str = "cnilab.millrace.dev/run";

/// Handles of a cluster that the run has started.
#[derive(Clone)]
pub struct Owned {
    /// Who stands before its API server.
    pub front: Arc<dyn Front>,
    /// Who issues its certificates.
    pub issuer: Arc<dyn Issuer>,
    /// Its nodes as machines.
    pub machines: Arc<dyn Machines>,
}

/// A run's connection.
#[derive(Clone)]
pub struct Session {
    pub(crate) client: Client,
    config: Config,
    /// The same client, without a second attempt after 429, 503 and 504.
    pub(crate) once: Client,
    pub(crate) options: SessionOptions,
    /// Names of the nodes in order, those first to which pods are scheduled.
    pub(crate) nodes: Vec<String>,
    hands: Arc<Mutex<Hands>>,
    /// The server's version and the first node's kernel.
    evidence: String,
    /// Of the first node, as its kubelet tells it: `containerd://2.1.4`.
    runtime: String,
    scenarios: Arc<AtomicU32>,
    /// Where the run has started the cluster.
    pub(crate) owned: Option<Owned>,
    /// Where the run has the cluster to itself.
    pub(crate) feed: Option<Arc<Feed>>,
    baseline: Arc<Mutex<Baseline>>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Session")
            .field("options", &self.options)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Connects, checks every permission before anything is made, and puts a hand on each node that is ready.
    ///
    /// # Errors
    /// The kubeconfig is wrong, a permission is missing, no node is ready, or a hand is not there in time. What was made is removed.
    pub async fn open(options: SessionOptions, owned: Option<Owned>) -> Result<Self, Error> {
        let config = read(&options.access).await?;
        let mut without_retry = config.clone();
        without_retry.default_retry = false;
        let client = client_of(&options.access.kubeconfig, config.clone())?;
        let once = client_of(&options.access.kubeconfig, without_retry)?;
        permitted(&client, options.whole.is_some()).await?;
        if options.whole.is_some() && owned.is_none() {
            alone(&client).await?;
        }
        let version = client.apiserver_version().await.map_err(Error::api("ask for the server's version"))?;
        let nodes = ready_nodes(&client).await?;
        let evidence = evidence(&version.git_version, &nodes);
        let runtime = nodes
            .first()
            .and_then(|node| node.status.clone()?.node_info)
            .unwrap_or_default()
            .container_runtime_version;
        let nodes: Vec<_> = nodes.iter().map(Node::name_any).collect();
        let own = own_namespace(&options.run);
        if owned.is_none() {
            (options.tell)(&announcement(&options, &nodes));
        }
        let made = async {
            make_namespace(&client, &own, &options.run).await?;
            // Somebody's cluster may allow critical pods in namespaces of its own alone, as GKE does.
            hands::place(&client, &own, &nodes, &options, owned.is_some()).await
        };
        match made.await {
            Ok(hands) => {
                let feed = options.whole.is_some().then(|| Arc::new(Feed::start(&client)));
                let (hands, scenarios) = (Arc::new(Mutex::new(hands)), Arc::default());
                Ok(Self {
                    client,
                    config,
                    once,
                    options,
                    nodes,
                    hands,
                    evidence,
                    runtime,
                    scenarios,
                    owned,
                    feed,
                    baseline: Arc::default(),
                })
            }
            // Another run has that name, and what there is is its own.
            Err(error) if error.is_about_one_that_is_there() => Err(error),
            Err(error) => match remove(&client, &of_run(&options.run), options.deadline).await {
                Ok(_) => Err(error),
                Err(left) => Err(Error::Left(vec![error.to_string(), left.to_string()])),
            },
        }
    }

    /// Number of nodes that it has a hand on.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Versions of server, kernel and runtime, for reports.
    #[must_use]
    pub fn evidence(&self) -> &str {
        &self.evidence
    }

    /// True if the nodes have the container runtime that scenarios call so: a name, and a version where that matters (`cri-o`, `containerd-2`).
    #[must_use]
    pub fn has_runtime(&self, name: &str) -> bool {
        is_runtime(&self.runtime, name)
    }

    /// True if the run has started the cluster.
    #[must_use]
    pub fn is_owned(&self) -> bool {
        self.owned.is_some()
    }

    /// True if the run has the cluster to itself: scenarios deploy the node agent.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.options.whole.is_some()
    }

    /// A client with somebody's token.
    pub(crate) fn client_with_token(&self, token: &str) -> Result<Client, Error> {
        let mut config = self.config.clone();
        config.auth_info = serde_json::from_value(json!({ "token": token }))?;
        client_of(&self.options.access.kubeconfig, config)
    }

    /// The hand of a node.
    pub(crate) fn hand(&self, node: &str) -> Result<Hand, Error> {
        let hands = self.hands.lock();
        hands.get(node).cloned().ok_or_else(|| Error::Missing(format!("hand on node {node:?}")))
    }

    /// Lays a hand on a node again that has lost it.
    pub(crate) async fn lay_hand_again(&self, node: &str) -> Result<(), Error> {
        let hand = hands::again(&self.client, &own_namespace(&self.options.run), node, &self.options).await?;
        self.hands.lock().insert(node.to_owned(), hand);
        Ok(())
    }

    pub(crate) fn baseline(&self) -> MutexGuard<'_, Baseline> {
        self.baseline.lock()
    }

    pub(crate) fn shared_baseline(&self) -> Arc<Mutex<Baseline>> {
        Arc::clone(&self.baseline)
    }

    /// A number that no other scenario of the run has.
    pub(crate) fn number(&self) -> u32 {
        self.scenarios.fetch_add(1, Ordering::Relaxed)
    }
}

fn is_runtime(version: &str, name: &str) -> bool {
    let Some((kind, version)) = version.split_once("://") else { return false };
    let wanted = name.strip_prefix(kind).map(|rest| rest.trim_start_matches('-'));
    wanted.is_some_and(|wanted| {
        wanted.is_empty() || version.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
    })
}

/// Namespace of a run's hands.
pub(crate) fn own_namespace(run: &str) -> String {
    format!("cnilab-{run}")
}

/// Selector of what a run has made.
pub(crate) fn of_run(run: &str) -> String {
    format!("{LABEL}={run}")
}

/// One line: namespaces, DaemonSet, image, nodes and label of a run.
fn announcement(options: &SessionOptions, nodes: &[String]) -> String {
    let (own, label, image) = (own_namespace(&options.run), of_run(&options.run), &options.image);
    let namespaces = if options.whole.is_some() {
        "the namespaces that scenarios name"
    } else {
        "namespaces of scenarios"
    };
    format!(
        "makes namespace {own} with a DaemonSet of privileged pods ({image}) on {}, and {namespaces}; all have the label {label}",
        nodes.join(", ")
    )
}

/// Removes what this run, or any that was killed, has left: every namespace with [`LABEL`], those of runs that go on as well, pods in namespaces of others, what
/// belongs to no namespace, and cordons.
/// Waits until the namespaces are gone, and returns what is gone, by kind and name.
///
/// # Errors
/// The kubeconfig is wrong, or something is left, within `deadline` as far as namespaces go; the error names all of it.
pub async fn clean(access: &Access, run: Option<&str>, deadline: Duration) -> Result<Vec<String>, Error> {
    let client = client_of(&access.kubeconfig, read(access).await?)?;
    let label = run.map_or_else(|| LABEL.to_owned(), of_run);
    remove(&client, &label, deadline).await
}

async fn read(Access { kubeconfig, may_execute }: &Access) -> Result<Config, Error> {
    let failed = |why: String| Error::Kubeconfig { path: kubeconfig.display().to_string(), why };
    let read = Kubeconfig::read_from(kubeconfig).map_err(|error| failed(error.to_string()))?;
    if let Some(program) = program(&read).filter(|_| !may_execute) {
        return Err(failed(format!(
            "its user runs {program:?} for a token: --kubeconfig-exec allows that, where the file is from somebody you trust"
        )));
    }
    let chosen = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(read, &chosen).await.map_err(|error| failed(error.to_string()))
}

/// Program that the kubeconfig's own user runs (`exec`, `auth-provider` with `cmd-path`).
fn program(kubeconfig: &Kubeconfig) -> Option<String> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == *current)?.context.as_ref()?;
    let user = context.user.as_ref()?;
    let info = kubeconfig.auth_infos.iter().find(|info| info.name == *user)?.auth_info.as_ref()?;
    let exec = info.exec.as_ref().map(|exec| exec.command.clone().unwrap_or_default());
    exec.or_else(|| info.auth_provider.as_ref()?.config.get("cmd-path").cloned())
}

fn client_of(kubeconfig: &Path, config: Config) -> Result<Client, Error> {
    let failed = |why: String| Error::Kubeconfig { path: kubeconfig.display().to_string(), why };
    let client = ClientBuilder::try_from(config).map_err(|error| failed(error.to_string()))?;
    Ok(client.with_layer(&TimeoutLayer::new(SILENCE)).build())
}

/// Fails if somebody has deployed the node agent, in whichever namespace, if another run is there, or was killed there, or if a node gets the agent of scenarios
/// that nobody looks after.
async fn alone(client: &Client) -> Result<(), Error> {
    let sets: Api<DaemonSet> = Api::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={DAEMONSET}"));
    let found = sets.list(&named).await.map_err(Error::api("list DaemonSets"))?;
    if let Some(set) = found.items.first() {
        return Err(Error::Occupied(format!("{}/{DAEMONSET}", set.namespace().unwrap_or_default())));
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let of_runs = namespaces.list(&ListParams::default().labels(LABEL)).await;
    if let Some(one) = of_runs.map_err(Error::api("list namespaces"))?.items.first() {
        return Err(Error::Shared(one.name_any()));
    }
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await;
    let nodes = nodes.map_err(Error::api("list nodes"))?.items;
    let all: Vec<_> = nodes.iter().filter(|node| is_linux(node)).map(Node::name_any).collect();
    let used: Vec<_> = usable(nodes).iter().map(Node::name_any).collect();
    let others: Vec<_> = all.into_iter().filter(|name| !used.contains(name)).collect();
    if others.is_empty() { Ok(()) } else { Err(Error::Unusable(others)) }
}

fn is_linux(node: &Node) -> bool {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    info.is_some_and(|info| info.operating_system == "linux")
}

async fn ready_nodes(client: &Client) -> Result<Vec<Node>, Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let all = nodes.list(&ListParams::default()).await.map_err(Error::api("list nodes"))?.items;
    let found = usable(all);
    if found.is_empty() {
        return Err(Error::Missing("Linux node that is ready and not cordoned".to_owned()));
    }
    Ok(found)
}

/// Linux nodes that are ready and not cordoned, by name; those with a taint that keeps pods out come last.
fn usable(mut nodes: Vec<Node>) -> Vec<Node> {
    nodes.retain(|node| {
        let status = node.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
        let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
        ready && !cordoned && is_linux(node)
    });
    let keeps_out = |node: &Node| {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
        taints.into_iter().any(|taint| taint.effect != "PreferNoSchedule")
    };
    nodes.sort_by_key(|node| (keeps_out(node), node.name_any()));
    nodes
}

fn evidence(server: &str, nodes: &[Node]) -> String {
    let info = nodes.first().and_then(|node| node.status.clone()?.node_info).unwrap_or_default();
    let (kernel, runtime) = (info.kernel_version, info.container_runtime_version);
    format!("API server {server}, {} nodes, the first with kernel {kernel} and {runtime}", nodes.len())
}

pub(crate) async fn make_namespace(client: &Client, name: &str, run: &str) -> Result<(), Error> {
    // The hand is privileged, and pods of the mesh have whatever the scenario gives them.
    let labels = json!({ LABEL: run, "pod-security.kubernetes.io/enforce": "privileged" });
    let namespace = from(json!({ "metadata": { "name": name, "labels": labels } }))?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let made = namespaces.create(&PostParams::default(), &namespace).await;
    made.map(drop).map_err(Error::api(format!("make namespace {name}")))
}

/// As [`remove_labelled`]; what is left is an error.
pub(crate) async fn remove(client: &Client, label: &str, deadline: Duration) -> Result<Vec<String>, Error> {
    let mut left = Leftovers::default();
    let gone = remove_labelled(client, label, None, deadline, &mut left).await;
    if left.is_empty() { Ok(gone) } else { Err(Error::Left([left.networks, left.faults].concat())) }
}

/// Removes everything with this label, but for a namespace that stays: cordons first, which keep pods from their nodes; nodes that nobody runs; pods in
/// namespaces of others, and what makes them; namespaces, all of which begin to go before one is waited for; and then what else is in namespaces of others or in none, as
/// pods need it to end. Each is tried whatever became of the others; without a list of the namespaces nobody knows which of them are others'. Returns what is gone.
pub(crate) async fn remove_labelled(
    client: &Client,
    label: &str,
    stays: Option<&str>,
    deadline: Duration,
    left: &mut Leftovers,
) -> Vec<String> {
    let cordons = cordon::lift(client, label, left).await.into_iter();
    let mut removed: Vec<_> = cordons.map(|node| format!("cordon of node {node}")).collect();
    removed.extend(objects::remove_made_nodes(client, label, left).await);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.list(&ListParams::default().labels(label)).await {
        Err(error) => {
            left.note(Err(Error::api("list namespaces")(error)));
        }
        Ok(found) => {
            let names: Vec<_> = found.iter().map(Namespace::name_any).collect();
            removed.extend(objects::remove_running(client, label, &names, deadline, left).await);
            let going = names.iter().filter(|name| Some(name.as_str()) != stays);
            let ended = join_all(going.map(async |name| (name, gone(client, name, deadline).await))).await;
            for (name, ended) in ended {
                if left.note(ended) {
                    removed.push(format!("namespace {name}"));
                }
            }
            removed.extend(objects::remove_others(client, label, &names, left).await);
        }
    }
    removed
}

/// Deletes a namespace, and waits until it is gone.
pub(crate) async fn gone(client: &Client, name: &str, deadline: Duration) -> Result<(), Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let failed = |what: &str| Error::api(format!("{what} namespace {name}"));
    let Some(namespace) = namespaces.get_opt(name).await.map_err(failed("get"))? else { return Ok(()) };
    unless_gone(namespaces.delete(name, &DeleteParams::default()).await).map_err(failed("delete"))?;
    until_gone(&namespaces, &namespace, || format!("the end of namespace {name}"), deadline).await
}

#[cfg(test)]
mod tests;
