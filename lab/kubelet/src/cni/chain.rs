// SPDX-License-Identifier: Apache-2.0
//! A whole list of plugins, called as a runtime calls it: ADD in order with each result handed on, everything undone after
//! a failure, DEL in reverse. With which configuration is a matter of the runtime's profile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use cluster::conflist::{Extra, List};
use cluster::profile::{Addressless, Calls, FailedTeardown, Teardown};
use cluster::{
    BASE_PLUGIN, ChainFailure, CniAnswer, CniCall, Kernel, NodePaths, RuntimeConf, RuntimeProfile,
};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

pub use super::attachment::{Attachment, ChainError};
use super::cache::{Cache, CachedResult};
use super::call::{Caller, failure, not_found};
use super::loaded::Loaded;
use super::logged::{Logged, only_lab};
use super::multus::{self, Multus};
use super::result::addresses;
use crate::error::Error;

/// CNI side of a node's container runtime.
#[derive(Debug)]
pub struct Chain {
    paths: NodePaths,
    caller: Caller,
    /// The plugin that is a runtime for others.
    pub(crate) multus: Multus,
    cache: Cache,
    loaded: Loaded,
    pub(crate) profile: &'static RuntimeProfile,
    /// Additional environment of plugins.
    env: BTreeMap<String, String>,
    calls: Mutex<Vec<(CniCall, CniAnswer)>>,
    pub(crate) logged: Logged,
    /// The node's namespaces go next, and with them all that [`BASE_PLUGIN`] made.
    ends_with_node: AtomicBool,
}

fn by_itself(message: String) -> ChainFailure {
    ChainFailure { plugin: None, code: None, message }
}

impl Chain {
    /// Runtime of a node.
    ///
    /// # Errors
    /// The configuration directory cannot be watched.
    pub fn new(
        paths: NodePaths,
        caller: Caller,
        multus: Multus,
        env: BTreeMap<String, String>,
        (profile, conf): (&'static RuntimeProfile, RuntimeConf),
    ) -> Result<Self, Error> {
        let cache = Cache::new(&paths.cache_dir, profile.cache);
        let loaded = Loaded::new(&paths.conf_dir, &paths.bin_dir, profile, conf)?;
        let logged = Logged::new(caller.under_test);
        Ok(Self {
            paths,
            caller,
            multus,
            cache,
            loaded,
            profile,
            env,
            calls: Mutex::default(),
            logged,
            ends_with_node: AtomicBool::default(),
        })
    }

    /// Leaves to the end of the node what it takes with it anyway.
    pub fn end_with_node(&self) {
        self.ends_with_node.store(true, Ordering::Relaxed);
    }

    /// True after [`Self::end_with_node`].
    pub(crate) fn ends_with_node(&self) -> bool {
        self.ends_with_node.load(Ordering::Relaxed)
    }

    /// Plugin calls so far, with their answers.
    #[must_use]
    pub fn calls(&self) -> Vec<(CniCall, CniAnswer)> {
        self.calls.lock().clone()
    }

    /// Makes one call and records it.
    ///
    /// # Errors
    /// The plugin cannot be started.
    pub async fn call(&self, call: CniCall) -> Result<CniAnswer, Error> {
        let answer = self.caller.call(&call).await?;
        self.record(call, &answer);
        Ok(answer)
    }

    /// As [`Chain::call`], on another kernel than the node's.
    ///
    /// # Errors
    /// The plugin cannot be started.
    pub async fn call_on(&self, call: CniCall, kernel: &Kernel) -> Result<CniAnswer, Error> {
        let answer = self.caller.call_on(&call, kernel).await?;
        self.record(call, &answer);
        Ok(answer)
    }

    fn record(&self, call: CniCall, answer: &CniAnswer) {
        self.calls.lock().push((call, answer.clone()));
    }

    fn list(&self) -> Result<List, ChainFailure> {
        self.loaded.list().ok_or_else(|| self.no_network())
    }

    /// Starts anew with what the configuration directory has.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn restart(&self) -> Result<(), Error> {
        self.loaded.restart()
    }

    /// Types of the plugins that ADD calls now.
    #[must_use]
    pub fn loaded(&self) -> Vec<String> {
        let plugins = self.loaded.list().map(|list| list.plugins).unwrap_or_default();
        plugins.iter().filter_map(|plugin| plugin["type"].as_str().map(str::to_owned)).collect()
    }

    /// Reasons of the reads of the configuration directory that lost the network.
    #[must_use]
    pub fn lost(&self) -> watch::Receiver<Vec<String>> {
        self.loaded.lost()
    }

    /// Message of `NetworkReady=false` while there is no configuration.
    pub(crate) fn without_network(&self) -> String {
        self.not_ready(&self.no_network())
    }

    fn no_network(&self) -> ChainFailure {
        let directory = self.paths.conf_dir.display().to_string();
        by_itself(self.profile.no_network.replace("{}", &directory))
    }

    fn not_ready(&self, failure: &ChainFailure) -> String {
        self.profile.not_ready.replace("{}", &failure.message)
    }

    /// The runtime's answer about its network (`NetworkReady`); the inner error is the message where it is not ready.
    ///
    /// # Errors
    /// The harness failed.
    pub async fn ready(&self) -> Result<Result<(), String>, Error> {
        let ready = match self.profile.status {
            Calls::Made => self.status().await,
            Calls::Never => self.list().map(drop).map_err(ChainError::from),
        };
        match ready {
            Ok(()) => Ok(Ok(())),
            Err(ChainError::Chain(failure)) => Ok(Err(self.not_ready(&failure))),
            Err(ChainError::Lab(error)) => Err(error),
        }
    }

    /// Calls that the runtime makes when it starts beside these sandboxes. Failures are in the record: a runtime only logs it.
    ///
    /// # Errors
    /// The harness failed.
    pub async fn start_beside(&self, running: &[Attachment]) -> Result<(), Error> {
        if self.profile.gc == Calls::Made && self.ready().await?.is_ok() {
            self.collect(running).await?;
        }
        if self.profile.check == Calls::Made {
            for attachment in running {
                only_lab(self.check(attachment).await)?;
            }
        }
        Ok(())
    }

    /// GC of every network. All sandboxes count as those of the default one, whichever they were set up with.
    async fn collect(&self, running: &[Attachment]) -> Result<(), Error> {
        let default = self.loaded.list().map(|list| list.name);
        for list in self.loaded.all().into_iter().filter(|list| !list.disable_gc) {
            let valid = if Some(&list.name) == default.as_ref() { running } else { &[] };
            for entry in self.cache.of_network(&list.name) {
                let stale = entry.attachment();
                if valid
                    .iter()
                    .all(|at| (&at.container_id, &at.ifname) != (&stale.container_id, &stale.ifname))
                {
                    let deleted = self.del_list(&list, &stale, Some(entry.result)).await;
                    self.logged.dropped("DEL of a stale attachment failed", deleted)?;
                    self.cache.forget(&stale)?;
                }
            }
            only_lab(self.gc_list(&list, valid).await)?;
        }
        Ok(())
    }

    /// ADD. After a failure the whole list gets DEL, and so it does when the CHECK fails with which some runtimes follow it.
    ///
    /// # Errors
    /// A plugin failed, or there is no network.
    pub async fn add(&self, attachment: &Attachment) -> Result<Value, ChainError> {
        let list = self.list()?;
        let added = match self.add_list(&list, attachment).await {
            Ok(result) => {
                self.cache.put(CachedResult::new(&list, attachment, &result))?;
                let checks = self.profile.check == Calls::Made && list.speaks(0, 4);
                let checked = if checks { self.check(attachment).await } else { Ok(()) };
                checked.and_then(|()| Ok(self.accepted(result, attachment)?))
            }
            failed => failed,
        };
        if added.is_err() {
            let deleted = self.del_list(&list, attachment, None).await;
            self.logged.dropped("DEL after a failed ADD failed", deleted)?;
            self.cache.forget(attachment)?;
        }
        added
    }

    /// containerd's `setupPodNetwork` (`internal/cri/server/sandbox_run.go`).
    fn accepted(&self, result: Value, attachment: &Attachment) -> Result<Value, ChainFailure> {
        let has_address = addresses(&result).iter().any(|(name, _)| *name == attachment.ifname);
        if has_address || self.profile.addressless == Addressless::Accepted {
            return Ok(result);
        }
        Err(by_itself(format!("failed to find network info for sandbox {:?}", attachment.container_id)))
    }

    pub(super) async fn add_list(&self, list: &List, attachment: &Attachment) -> Result<Value, ChainError> {
        let mut previous: Option<Value> = None;
        for plugin in &list.plugins {
            let extra = extra(previous.as_ref(), attachment);
            let answer = self.one("ADD", list, plugin, Some(attachment), extra).await?;
            let result = answer.json();
            if !result.is_object() {
                let why = format!("plugin {} gave no result: {:?}", plugin["type"], answer.stdout);
                return Err(by_itself(why).into());
            }
            previous = Some(result);
        }
        Ok(previous.unwrap_or_default())
    }

    /// DEL in reverse, and what the runtime makes of its failure.
    ///
    /// # Errors
    /// A plugin failed; the ones before it in the list were not called then. Or there is no network.
    pub async fn del(&self, attachment: &Attachment) -> Result<(), ChainError> {
        match self.try_del(attachment).await {
            Err(ChainError::Chain(failure)) => match verdict(self.profile, attachment, &failure) {
                Verdict::Failed => Err(failure.into()),
                Verdict::Done => Ok(()),
                Verdict::GivenUp => {
                    self.cache.forget(attachment)?;
                    if attachment.netns.is_empty() { Ok(()) } else { Err(failure.into()) }
                }
            },
            ended => ended,
        }
    }

    async fn try_del(&self, attachment: &Attachment) -> Result<(), ChainError> {
        let (list, entry) = self.of_sandbox(attachment)?;
        let in_cache = entry.is_some();
        self.del_list(&list, attachment, entry.map(|entry| entry.result)).await?;
        if in_cache { Ok(self.cache.forget(attachment)?) } else { Ok(()) }
    }

    /// The list that DEL and CHECK of a sandbox are called with, and what the cache has of it in that network.
    fn of_sandbox(&self, attachment: &Attachment) -> Result<(List, Option<CachedResult>), ChainFailure> {
        match self.profile.teardown {
            Teardown::Cached => {
                let entry = self.cache.get(attachment);
                let list = entry.as_ref().and_then(CachedResult::list).map_or_else(|| self.list(), Ok)?;
                Ok((list, entry))
            }
            Teardown::Loaded { .. } => {
                let list = self.list()?;
                let entry = self.cache.get_of(&list.name, attachment);
                Ok((list, entry))
            }
        }
    }

    pub(super) async fn del_list(
        &self,
        list: &List,
        attachment: &Attachment,
        result: Option<Value>,
    ) -> Result<(), ChainError> {
        // Older plugins do not expect a result in DEL.
        let previous = result.filter(|_| list.speaks(0, 4));
        // One that is there would be called, and would succeed.
        let is_left_out = self.ends_with_node() && self.paths.bin_dir.join(BASE_PLUGIN).exists();
        let is_due = |plugin: &&Map<String, Value>| {
            !is_left_out || plugin.get("type").is_none_or(|of| of != BASE_PLUGIN)
        };
        for plugin in list.plugins.iter().rev().filter(is_due) {
            let extra = extra(previous.as_ref(), attachment);
            self.one("DEL", list, plugin, Some(attachment), extra).await?;
        }
        Ok(())
    }

    /// CHECK in order, with the cached result.
    ///
    /// # Errors
    /// A plugin failed, the list is too old for CHECK, or the cache knows nothing of the sandbox.
    pub async fn check(&self, attachment: &Attachment) -> Result<(), ChainError> {
        let (list, entry) = self.of_sandbox(attachment)?;
        if !list.speaks(0, 4) {
            let why = format!("configuration version {:?} does not support CHECK", list.version);
            return Err(by_itself(why).into());
        }
        if list.disable_check {
            return Ok(());
        }
        let result = entry.ok_or_else(|| by_itself("no cached result to check".to_owned()))?.result;
        for plugin in &list.plugins {
            self.one("CHECK", &list, plugin, Some(attachment), extra(Some(&result), attachment)).await?;
        }
        Ok(())
    }

    /// STATUS in order; nothing happens for a list that is too old for it.
    ///
    /// # Errors
    /// A plugin failed, or there is no network.
    pub async fn status(&self) -> Result<(), ChainError> {
        let list = self.list()?;
        if list.speaks(1, 1) {
            for plugin in &list.plugins {
                self.one("STATUS", &list, plugin, None, Extra::default()).await?;
            }
        }
        Ok(())
    }

    /// GC in order: everything but `valid` may go; nothing happens for a list that is too old for it.
    ///
    /// # Errors
    /// A plugin failed, or there is no network.
    pub async fn gc(&self, valid: &[Attachment]) -> Result<(), ChainError> {
        self.gc_list(&self.list()?, valid).await
    }

    async fn gc_list(&self, list: &List, valid: &[Attachment]) -> Result<(), ChainError> {
        if !list.speaks(1, 1) || list.disable_gc {
            return Ok(());
        }
        let valid: Vec<Value> =
            valid.iter().map(|at| json!({ "containerID": at.container_id, "ifname": at.ifname })).collect();
        // A runtime written in Go says null where the list is empty.
        let attachments = if valid.is_empty() { Value::Null } else { Value::Array(valid) };
        for plugin in &list.plugins {
            let extra = Extra { attachments: Some(&attachments), ..Extra::default() };
            self.one("GC", list, plugin, None, extra).await?;
        }
        Ok(())
    }

    pub(super) async fn one(
        &self,
        command: &str,
        list: &List,
        plugin: &Map<String, Value>,
        attachment: Option<&Attachment>,
        extra: Extra<'_>,
    ) -> Result<CniAnswer, ChainError> {
        let name = plugin.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !self.paths.bin_dir.join(&name).exists() {
            return Err(not_found(&name, &self.paths.bin_dir).into());
        }
        let env = self.environment(command, attachment);
        let mut call = CniCall { plugin: name, env, stdin: list.input(plugin, extra) };
        let answer = if multus::TYPES.contains(&call.plugin.as_str()) {
            let (more, record) = self.multus.environment();
            call.env.extend(more);
            let answer = self.call(call.clone()).await?;
            for (call, answer) in record.take() {
                self.look_at(&call, &answer);
                self.record(call, &answer);
            }
            answer
        } else {
            self.call(call.clone()).await?
        };
        self.look_at(&call, &answer);
        if answer.exit == Some(0) { Ok(answer) } else { Err(failure(&call, &answer).into()) }
    }

    /// One that is killed is no crash of its own.
    fn look_at(&self, call: &CniCall, answer: &CniAnswer) {
        if !self.caller.killed(answer) {
            self.logged.answered(call, answer);
        }
    }

    /// The environment of a call: CNI's variables, a search path, and what the lab was told to add.
    #[must_use]
    pub fn environment(&self, command: &str, attachment: Option<&Attachment>) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
        set("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned());
        set("CNI_COMMAND", command.to_owned());
        set("CNI_PATH", self.paths.bin_dir.display().to_string());
        // libcni sets all of them: without an attachment they are empty.
        let mut of = |name: &str, value: fn(&Attachment) -> String| {
            set(name, attachment.map(value).unwrap_or_default());
        };
        of("CNI_CONTAINERID", |at| at.container_id.clone());
        of("CNI_NETNS", |at| at.netns.clone());
        of("CNI_IFNAME", |at| at.ifname.clone());
        of("CNI_ARGS", |at| {
            at.args.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(";")
        });
        env
    }
}

/// Consequence of a failed DEL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It is reported, and DEL is called again.
    Failed,
    /// It is none.
    Done,
    /// It is the last one.
    GivenUp,
}

fn verdict(profile: &RuntimeProfile, attachment: &Attachment, failure: &ChainFailure) -> Verdict {
    let says = |words: &[&str]| words.iter().any(|word| failure.message.contains(word));
    let pardoned = match profile.teardown {
        Teardown::Cached => false,
        Teardown::Loaded { pardons, pardons_without_netns } => {
            says(pardons) || (attachment.netns.is_empty() && says(pardons_without_netns))
        }
    };
    match profile.failed_teardown {
        _ if pardoned => Verdict::Done,
        FailedTeardown::Repeated => Verdict::Failed,
        FailedTeardown::GivenUp => Verdict::GivenUp,
    }
}

fn extra<'a>(previous: Option<&'a Value>, attachment: &'a Attachment) -> Extra<'a> {
    Extra { previous, capabilities: Some(&attachment.capabilities), attachments: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_as_a_failed_del_depends_on_the_runtime_and_on_the_namespace() {
        let at = |netns: &str| Attachment { netns: netns.to_owned(), ..Attachment::default() };
        let said = |message: &str| by_itself(message.to_owned());
        let of = |profile: &RuntimeProfile, netns: &str, message: &str| {
            verdict(profile, &at(netns), &said(message))
        };
        let (containerd, crio) = (&RuntimeProfile::CONTAINERD_2, &RuntimeProfile::CRI_O);
        let (lacking, enoent) = ("failed to find plugin", "open /x: no such file or directory");
        assert_eq!(of(containerd, "/n", lacking), Verdict::Failed);
        assert_eq!(of(containerd, "/n", "pod not found"), Verdict::Done);
        assert_eq!(of(containerd, "/n", enoent), Verdict::Failed);
        assert_eq!(of(containerd, "", enoent), Verdict::Done);
        assert_eq!(of(&RuntimeProfile::CRI_DOCKERD, "/n", enoent), Verdict::Done);
        assert_eq!(of(crio, "/n", enoent), Verdict::GivenUp);
    }
}
