// SPDX-License-Identifier: Apache-2.0
//! Publishes whether the runtime has loaded our entry and goes by it. Each change is published before the call returns, so that no part of the
//! agent sees an entry that is installed before it sees that it is not loaded yet.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use protocol::agent::{PodKey, SOCKET};
use protocol::netconf::NetConf;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::adds::{Adds, MeshPod, PodName};
use super::cri::{self, Answer};
use super::kind::{NodeOfRuntime, RuntimeKind};
use super::loaded::{Heard, Installed, Loaded, decide};
use crate::api::{Client, REQUEST_LIMIT};
use crate::conflist::entry;
use crate::conflist::networks::Networks;
use crate::pods::{NodePod, PodEvent, Pods};
use crate::readiness::{Part, Readiness};
use crate::repair::detect::PluginRules;
use crate::settings::Settings;
use crate::time::pause;

/// First delay after a request for the node failed; doubled up to [`LATE`].
const SOON: Duration = Duration::from_millis(250);
const LATE: Duration = Duration::from_secs(30);

/// First delay before the runtime is asked again while it has not loaded our entry; doubled up to [`SELDOM`].
const AGAIN: Duration = Duration::from_millis(10);
const SELDOM: Duration = Duration::from_secs(2);
/// Interval of the questions to a runtime that has loaded it.
const RESYNC: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct State {
    installed: Option<Installed>,
    networks: Networks,
    kind: RuntimeKind,
    heard: Heard,
    adds: Adds,
    /// Since when our list is loaded, on the clock that pods' times are of.
    loaded: Option<Timestamp>,
}

/// The runtime of this node: cheap to clone, clones share it.
#[derive(Debug, Clone)]
pub struct Runtime(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
    /// The runtime is to be asked.
    due: Notify,
    readiness: Readiness,
}

/// What the follower follows.
#[derive(Debug)]
pub struct Followed {
    pub client: Option<Client>,
    pub pods: Pods,
    pub settings: watch::Receiver<Arc<Settings>>,
    /// This agent installs; otherwise another one of the node does, and serves the plugin.
    pub installs: watch::Receiver<bool>,
}

impl Runtime {
    /// State that is published there, as [`Part::Runtime`].
    #[must_use]
    pub fn new(readiness: Readiness) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::default(),
            changed: Notify::new(),
            due: Notify::new(),
            readiness,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Our entry is in the directory, which changed.
    pub fn installed(&self, installed: Installed) {
        let mut state = self.state();
        state.adds.list_changed(Instant::now());
        state.networks = installed.networks.clone();
        (state.installed, state.loaded) = (Some(installed), None);
        drop(state);
        self.announce();
        self.0.due.notify_one();
    }

    /// Networks of the directory: with others than before nothing is known of the runtime.
    pub fn networks(&self, networks: &Networks) {
        let mut state = self.state();
        if state.networks == *networks {
            return;
        }
        state.networks = networks.clone();
        if let Some(installed) = &mut state.installed {
            installed.networks = networks.clone();
        }
        state.adds.list_changed(Instant::now());
        drop(state);
        self.announce();
    }

    /// True if the runtime is known to go by the network of this file, whichever file comes first: CRI-O's `cni_default_network`.
    #[must_use]
    pub fn goes_by(&self, file: &str) -> bool {
        let state = self.state();
        let of_file = |(name, of): (&String, &String)| (of == file).then(|| name.clone());
        let Some(network) = state.networks.files.iter().find_map(of_file) else { return false };
        match &state.heard {
            Heard::Said(Answer::Configured(configured), _) => configured.default_network == Some(network),
            Heard::Said(Answer::Loaded(_), _) => false,
            _ => state.adds.goes_by(&network),
        }
    }

    /// Our entry is not in the directory, or not read first.
    pub fn lost(&self) {
        self.state().installed = None;
        self.announce();
    }

    /// The node's status names its runtime.
    pub fn is(&self, kind: RuntimeKind) {
        if std::mem::replace(&mut self.state().kind, kind) != kind {
            self.announce();
        }
    }

    /// The plugin asked for a pod that is added.
    pub fn added(&self, key: &PodKey) {
        if !key.network.is_empty() {
            self.heard((key.namespace.clone(), key.name.clone()), &key.network);
        }
    }

    /// The plugin's line of an ADD that ended.
    pub fn logged(&self, pod: PodName) {
        self.heard(pod, "");
    }

    fn heard(&self, pod: PodName, network: &str) {
        let mut state = self.state();
        let State { networks, adds, .. } = &mut *state;
        adds.added(pod, network, networks, Instant::now(), Timestamp::now());
        drop(state);
        self.announce();
    }

    fn announce(&self) {
        self.publish();
        self.0.changed.notify_one();
    }

    /// Sets the part; the time at which it may change by itself.
    fn publish(&self) -> Option<Instant> {
        let (mut state, now) = (self.state(), Instant::now());
        let State { installed, kind, heard, adds, loaded, .. } = &mut *state;
        let (why, until) = match decide(installed.as_ref(), *kind, heard, now) {
            Loaded::NotYet { why, until } => {
                *loaded = None;
                (Some(why), until)
            }
            Loaded::Yes => {
                loaded.get_or_insert_with(Timestamp::now);
                let of = |installed: &Installed| adds.verdict(&installed.file, &installed.networks, now);
                installed.as_ref().map(of).unwrap_or_default()
            }
        };
        match why {
            None => self.0.readiness.set_ready(Part::Runtime),
            Some(why) => self.0.readiness.set_unready(Part::Runtime, why),
        }
        until
    }

    /// Keeps the part up to date until cancelled, and asks for the runtime's kind once.
    pub async fn run(self, followed: Followed, stop: CancellationToken) {
        let Followed { client, pods, settings, installs } = followed;
        let (node, socket) = {
            let settings = settings.borrow();
            (settings.own.node.clone(), settings.places.cri_socket.clone())
        };
        let asking_runtime = async {
            if let Some(socket) = socket {
                self.ask_runtime(&socket).await;
            }
        };
        let asking = async {
            if let Some(client) = client.filter(|_| !node.is_empty()) {
                self.ask(&client, &node).await;
            }
        };
        let keeping = async {
            loop {
                let wait = self.publish().map_or(Duration::MAX, |until| until - Instant::now());
                tokio::select! {
                    () = self.0.changed.notified() => {}
                    () = pause(wait) => {}
                }
            }
        };
        let watching = self.watch(&pods, settings, installs);
        let all = async { tokio::join!(asking, asking_runtime, keeping, watching) };
        let _ = stop.run_until_cancelled(Box::pin(all)).await;
    }

    /// Asks the runtime after each change of our entry until it has loaded it, and from time to time.
    async fn ask_runtime(&self, socket: &Path) {
        self.hear(Heard::Nothing);
        let mut wait = AGAIN;
        loop {
            let asked = Instant::now();
            let heard = match cri::ask(socket).await {
                Ok(answer) => Heard::Said(answer, asked),
                Err(error) => Heard::Failed(format!("{}: {error}", socket.display())),
            };
            self.hear(heard);
            let is_loaded = self.state().loaded.is_some();
            wait = if is_loaded { RESYNC } else { wait.saturating_mul(2).min(SELDOM) };
            tokio::select! {
                () = self.0.due.notified() => wait = AGAIN,
                () = pause(wait) => {}
            }
        }
    }

    fn hear(&self, heard: Heard) {
        self.state().heard = heard;
        self.announce();
    }

    /// Asks for the node until it is known.
    async fn ask(&self, client: &Client, node: &str) {
        let path = format!("/api/v1/nodes/{node}");
        let mut wait = SOON;
        loop {
            match client.get::<NodeOfRuntime>(&path, REQUEST_LIMIT).await {
                Ok(known) => return self.is(known.kind()),
                Err(error) => {
                    tracing::debug!(target: "cni-agent", node, "the node's runtime is not known: {error}")
                }
            }
            pause(wait).await;
            wait = wait.saturating_mul(2).min(LATE);
        }
    }

    /// Looks which mesh pods of the node get an address, as long as this agent would hear of their ADDs.
    async fn watch(
        &self,
        pods: &Pods,
        mut settings: watch::Receiver<Arc<Settings>>,
        installs: watch::Receiver<bool>,
    ) {
        let mut events = pods.subscribe();
        let mut rules = Scope::of(&settings.borrow_and_update());
        while let Some(event) = events.next().await {
            if settings.has_changed().unwrap_or(false) {
                rules = Scope::of(&settings.borrow_and_update());
            }
            let Some(rules) = rules.as_ref().filter(|_| *installs.borrow()) else { continue };
            match event {
                PodEvent::Set(pod) => self.observe(&mesh_pod(&pod, true), &pod, rules),
                PodEvent::Removed(pod) => self.state().adds.gone(&name(&pod)),
                PodEvent::All => {
                    pods.all().iter().for_each(|pod| self.observe(&mesh_pod(pod, false), pod, rules));
                }
            }
        }
    }

    fn observe(&self, observed: &MeshPod, pod: &NodePod, scope: &Scope) {
        let serves = !self.0.readiness.missing().iter().any(|(part, _)| part == Part::Sockets);
        let mut state = self.state();
        let State { adds, loaded, .. } = &mut *state;
        match *loaded {
            Some(loaded) if serves && scope.0.redirects(pod) => {
                adds.observed(observed, loaded, Instant::now());
            }
            _ => adds.gone(&name(pod)),
        }
        drop(state);
        self.0.changed.notify_one();
    }
}

/// Rules by which the plugin treats pods; none where it does not ask this agent, or where pods have to name our network.
#[derive(Debug)]
struct Scope(PluginRules);

impl Scope {
    fn of(settings: &Settings) -> Option<Self> {
        let asks = |conf: &NetConf| conf.agent_socket() == settings.places.run_dir.join(SOCKET);
        let conf = entry::as_read(settings).filter(|conf| settings.chain.chained && asks(conf))?;
        Some(Self(PluginRules::of(conf)))
    }
}

fn name(pod: &NodePod) -> PodName {
    let facts = &pod.metadata.facts;
    (facts.namespace.clone(), facts.name.clone())
}

fn mesh_pod(pod: &NodePod, is_news: bool) -> MeshPod {
    let started = pod.status.start_time.as_ref().and_then(|time| time.parse().ok());
    MeshPod { name: name(pod), started, has_address: !pod.addresses().is_empty(), is_news }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
