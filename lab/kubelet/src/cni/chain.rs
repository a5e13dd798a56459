// SPDX-License-Identifier: Apache-2.0
//! A whole list of plugins, called as a runtime calls it: ADD in order with each result handed on, everything undone after
//! a failure, DEL in reverse with what the cache remembers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cluster::{ChainFailure, CniAnswer, CniCall, Kernel, NodePaths};
use serde_json::{Map, Value, json};

use super::cache::{Cache, CachedResult, Layout};
use super::call::{Caller, failure, not_found};
use super::conflist::{Extra, List};
use super::multus;
use crate::error::Error;
use crate::volumes::Host;

/// An attachment to the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// `CNI_CONTAINERID`
    pub container_id: String,
    /// `CNI_NETNS`; empty when the namespace is gone.
    pub netns: String,
    /// `CNI_IFNAME`
    pub ifname: String,
    /// `CNI_ARGS`, in order.
    pub args: Vec<(String, String)>,
    /// Runtime's value for each capability.
    pub capabilities: BTreeMap<String, Value>,
}

impl Default for Attachment {
    fn default() -> Self {
        Self {
            container_id: String::new(),
            netns: String::new(),
            ifname: "eth0".to_owned(),
            args: Vec::new(),
            capabilities: BTreeMap::new(),
        }
    }
}

/// Failure of a chain's call: the chain's, or the harness'.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The chain's: an answer of the system under test.
    #[error(transparent)]
    Chain(#[from] ChainFailure),
    #[error(transparent)]
    Lab(#[from] Error),
}

/// CNI side of a node's container runtime.
#[derive(Debug)]
pub struct Chain {
    paths: NodePaths,
    caller: Caller,
    pub(super) host: Host,
    cache: Cache,
    pub(super) layout: Layout,
    /// Additional environment of plugins.
    env: BTreeMap<String, String>,
    calls: Mutex<Vec<(CniCall, CniAnswer)>>,
}

fn by_itself(message: String) -> ChainFailure {
    ChainFailure { plugin: None, code: None, message }
}

impl Chain {
    /// Runtime of a node.
    #[must_use]
    pub fn new(
        paths: NodePaths,
        caller: Caller,
        host: Host,
        env: BTreeMap<String, String>,
        layout: Layout,
    ) -> Self {
        let cache = Cache::new(&paths.cache_dir, layout);
        Self { paths, caller, host, cache, layout, env, calls: Mutex::default() }
    }

    /// Plugin calls so far, with their answers.
    #[must_use]
    pub fn calls(&self) -> Vec<(CniCall, CniAnswer)> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push((call, answer.clone()));
    }

    fn list(&self) -> Result<List, ChainFailure> {
        List::load(&self.paths.conf_dir).map_err(|error| by_itself(error.to_string()))
    }

    /// ADD. After a failure the whole list gets DEL.
    ///
    /// # Errors
    /// A plugin failed, or there is no network.
    pub async fn add(&self, attachment: &Attachment) -> Result<Value, ChainError> {
        let list = self.list()?;
        let added = self.add_list(&list, attachment).await;
        match &added {
            Ok(result) => self.cache.put(CachedResult::new(&list, attachment, result))?,
            Err(_) => {
                // DEL's failure is in the record; the first failure is reported.
                let _ = self.del_list(&list, attachment, None).await;
            }
        }
        added
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

    /// DEL in reverse, with the list and the result of the ADD where the cache has them.
    ///
    /// # Errors
    /// A plugin failed; the ones before it in the list were not called then.
    pub async fn del(&self, attachment: &Attachment) -> Result<(), ChainError> {
        let entry = self.cache.get(attachment);
        let list = match entry.as_ref().and_then(CachedResult::list) {
            Some(list) => list,
            None => self.list()?,
        };
        self.del_list(&list, attachment, entry.map(|entry| entry.result)).await?;
        Ok(self.cache.forget(attachment)?)
    }

    pub(super) async fn del_list(
        &self,
        list: &List,
        attachment: &Attachment,
        result: Option<Value>,
    ) -> Result<(), ChainError> {
        // Older plugins do not expect a result in DEL.
        let previous = result.filter(|_| list.speaks(0, 4));
        for plugin in list.plugins.iter().rev() {
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
        let entry = self.cache.get(attachment);
        let list = match entry.as_ref().and_then(CachedResult::list) {
            Some(list) => list,
            None => self.list()?,
        };
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
        let list = self.list()?;
        if !list.speaks(1, 1) || list.disable_gc {
            return Ok(());
        }
        let valid: Vec<Value> =
            valid.iter().map(|at| json!({ "containerID": at.container_id, "ifname": at.ifname })).collect();
        // A runtime written in Go says null where the list is empty.
        let attachments = if valid.is_empty() { Value::Null } else { Value::Array(valid) };
        for plugin in &list.plugins {
            let extra = Extra { attachments: Some(&attachments), ..Extra::default() };
            self.one("GC", &list, plugin, None, extra).await?;
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
        if name == multus::TYPE {
            return self.multus(command, plugin, attachment).await;
        }
        if !self.paths.bin_dir.join(&name).exists() {
            return Err(not_found(&name, &self.paths.bin_dir).into());
        }
        let env = self.environment(command, attachment);
        let call = CniCall { plugin: name, env, stdin: list.input(plugin, extra) };
        let answer = self.call(call.clone()).await?;
        if answer.exit == Some(0) { Ok(answer) } else { Err(failure(&call, &answer).into()) }
    }

    /// The environment of a call: CNI's variables, a search path, and what the lab was told to add.
    #[must_use]
    pub fn environment(&self, command: &str, attachment: Option<&Attachment>) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
        set("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned());
        set("CNI_COMMAND", command.to_owned());
        set("CNI_PATH", self.paths.bin_dir.display().to_string());
        if let Some(at) = attachment {
            let args: Vec<String> = at.args.iter().map(|(key, value)| format!("{key}={value}")).collect();
            set("CNI_CONTAINERID", at.container_id.clone());
            set("CNI_NETNS", at.netns.clone());
            set("CNI_IFNAME", at.ifname.clone());
            set("CNI_ARGS", args.join(";"));
        }
        env
    }
}

fn extra<'a>(previous: Option<&'a Value>, attachment: &'a Attachment) -> Extra<'a> {
    Extra { previous, capabilities: Some(&attachment.capabilities), attachments: None }
}
