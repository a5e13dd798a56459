// SPDX-License-Identifier: Apache-2.0
//! Multus, as a runtime and a node see it: a plugin that is a runtime for others. It hands a sandbox to the cluster's network and to the networks
//! that the pod names, and keeps what it did below `/var/lib/cni/multus`, in the very form that the real one (4.2) has, because others read it:
//!
//! * `CONTAINER`: its delegates, written before the first is called; gone when the DEL of each has succeeded.
//! * `results/NETWORK-CONTAINER-IF`: what CNI's library keeps of each delegate.
//!
//! Delegates get no `prevResult`: each is a network of its own. DEL goes by the file, in reverse, through all of them, and fails if one fails.
//! STATUS, CHECK and GC go to the first one. The real one asks the API server for the pod and for its NetworkAttachmentDefinitions. This one has the pod's
//! annotations of the runtime, and takes each name for that of a file in `confDir`, which the real one does for a definition without a spec.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::{ChainFailure, CniAnswer};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::cache::{Cache, CachedResult};
use super::chain::{Attachment, Chain, ChainError};
use super::conflist::{Extra, List, files};
use crate::error::Error;

pub const TYPE: &str = "multus";
/// Pods' annotation for networks.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// Directory of Multus, as the node names it.
const DIRECTORY: &str = "/var/lib/cni/multus";

/// A delegate.
#[derive(Debug, Clone)]
struct Delegate {
    list: List,
    text: Vec<u8>,
    is_list: bool,
}

impl Delegate {
    fn read(text: Vec<u8>, is_list: bool) -> Result<Self, String> {
        let mut list = List::parse(&text, is_list)?;
        // The library keeps what it was given.
        list.text.clone_from(&text);
        Ok(Self { list, text, is_list })
    }

    fn of_file(path: &Path) -> Result<Self, String> {
        let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::read(text, path.extension().is_some_and(|extension| extension == "conflist"))
    }

    /// Go's encoding.
    fn kept(&self) -> Value {
        let whole: Value = serde_json::from_slice(&self.text).unwrap_or_default();
        let none = json!({ "cniVersion": "", "name": "", "type": "", "ipam": {}, "dns": {} });
        let (conf, list) =
            if self.is_list { (none, whole) } else { (whole, json!({ "name": "", "plugins": null })) };
        json!({ "Conf": conf, "ConfList": list, "Name": self.list.name, "IsFilterV4Gateway": false, "Bytes": STANDARD.encode(&self.text) })
    }

    fn of_kept(kept: &Value) -> Option<Self> {
        let is_list = kept["ConfList"]["plugins"].is_array();
        Self::read(STANDARD.decode(kept["Bytes"].as_str()?).ok()?, is_list).ok()
    }
}

fn failed(message: String) -> ChainError {
    ChainFailure { plugin: Some(TYPE.to_owned()), code: None, message }.into()
}

/// Networks of a pod's annotation, without their namespaces.
fn named(attachment: &Attachment) -> Vec<String> {
    let mut annotations = attachment.capabilities.values().filter_map(|value| value[NETWORKS].as_str());
    let text = annotations.next().unwrap_or_default();
    if let Ok(list) = serde_json::from_str::<Vec<Value>>(text) {
        return list.iter().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect();
    }
    let names = text.split(',').map(|one| one.rsplit('/').next().unwrap_or(one).trim());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Attachment of the delegate of that number.
fn at(attachment: &Attachment, number: usize) -> Attachment {
    let ifname = if number == 0 { attachment.ifname.clone() } else { format!("net{number}") };
    Attachment { ifname, ..attachment.clone() }
}

impl Chain {
    /// Runs Multus; its delegates run as the chain's plugins do.
    pub(super) fn multus<'a>(
        &'a self,
        command: &'a str,
        conf: &'a Map<String, Value>,
        attachment: Option<&'a Attachment>,
    ) -> BoxFuture<'a, Result<CniAnswer, ChainError>> {
        Box::pin(async move {
            let result = match (command, attachment) {
                ("ADD", Some(sandbox)) => self.attach(conf, sandbox).await?,
                ("DEL", Some(sandbox)) => self.detach(sandbox).await.map(|()| Value::Null)?,
                (_, sandbox) => self.to_first(command, conf, sandbox).await.map(|()| Value::Null)?,
            };
            let stdout = if result.is_null() { String::new() } else { result.to_string() };
            Ok(CniAnswer {
                exit: Some(0),
                stdout,
                stderr: String::new(),
                took: Duration::ZERO,
                waited: Duration::ZERO,
            })
        })
    }

    fn own(&self) -> PathBuf {
        self.host.find(Path::new(DIRECTORY))
    }

    fn results(&self) -> Cache {
        Cache::new(&self.own(), self.profile.cache)
    }

    /// Default network, which is named by its file.
    fn cluster_network(&self, conf: &Map<String, Value>) -> Result<Delegate, ChainError> {
        let file = conf.get("clusterNetwork").and_then(Value::as_str).unwrap_or_default();
        Delegate::of_file(&self.host.find(Path::new(file))).map_err(failed)
    }

    fn delegates(
        &self,
        conf: &Map<String, Value>,
        sandbox: &Attachment,
    ) -> Result<Vec<Delegate>, ChainError> {
        let directory = conf.get("confDir").and_then(Value::as_str).unwrap_or("/etc/cni/multus/net.d");
        let directory = self.host.find(Path::new(directory));
        let mut all = vec![self.cluster_network(conf)?];
        for name in named(sandbox) {
            let mut there = files(&directory).into_iter().filter_map(|path| Delegate::of_file(&path).ok());
            let found = there.find(|delegate| delegate.list.name == name);
            all.push(
                found.ok_or_else(|| {
                    failed(format!("cannot find network {name} in {}", directory.display()))
                })?,
            );
        }
        Ok(all)
    }

    async fn attach(&self, conf: &Map<String, Value>, sandbox: &Attachment) -> Result<Value, ChainError> {
        let delegates = self.delegates(conf, sandbox)?;
        let (own, kept) = (self.own(), json!(delegates.iter().map(Delegate::kept).collect::<Vec<_>>()));
        fs::create_dir_all(&own).map_err(Error::file("make", &own))?;
        let file = own.join(&sandbox.container_id);
        fs::write(&file, kept.to_string()).map_err(Error::file("write", &file))?;
        let mut first = Value::Null;
        for (number, delegate) in delegates.iter().enumerate() {
            let place = at(sandbox, number);
            let added = self.add_list(&delegate.list, &place).await;
            let result = match added {
                Ok(result) => result,
                Err(error) => {
                    // The first failure is the one to report.
                    let _ = self.detach(sandbox).await;
                    return Err(error);
                }
            };
            self.results().put(CachedResult::new(&delegate.list, &place, &result))?;
            if number == 0 {
                first = result;
            }
        }
        Ok(first)
    }

    async fn detach(&self, sandbox: &Attachment) -> Result<(), ChainError> {
        let file = self.own().join(&sandbox.container_id);
        let Ok(text) = fs::read(&file) else { return Ok(()) };
        let kept: Vec<Value> = serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
        let (results, mut errors) = (self.results(), Vec::new());
        let delegates: Vec<Delegate> = kept.iter().filter_map(Delegate::of_kept).collect();
        for (number, delegate) in delegates.iter().enumerate().rev() {
            let place = at(sandbox, number);
            let result = results.get(&place).map(|entry| entry.result);
            match self.del_list(&delegate.list, &place, result).await {
                Ok(()) => results.forget(&place)?,
                Err(ChainError::Chain(failure)) => errors.push(failure.to_string()),
                Err(error) => return Err(error),
            }
        }
        if errors.is_empty() {
            return Ok(fs::remove_file(&file).map_err(Error::file("remove", &file))?);
        }
        Err(failed(errors.join(" / ")))
    }

    async fn to_first(
        &self,
        command: &str,
        conf: &Map<String, Value>,
        sandbox: Option<&Attachment>,
    ) -> Result<(), ChainError> {
        let Delegate { list, .. } = self.cluster_network(conf)?;
        let result = sandbox.and_then(|sandbox| self.results().get(sandbox)).map(|entry| entry.result);
        for plugin in &list.plugins {
            let extra = Extra { previous: result.as_ref(), ..Extra::default() };
            self.one(command, &list, plugin, sandbox, extra).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn sandbox(networks: &str) -> Attachment {
        let capabilities = BTreeMap::from([("annotations".to_owned(), json!({ NETWORKS: networks }))]);
        Attachment { capabilities, ..Attachment::default() }
    }

    #[test]
    fn networks_are_named_in_both_forms() {
        assert_eq!(named(&sandbox("")), [""; 0]);
        assert_eq!(named(&sandbox("default/istio-cni, storage")), ["istio-cni", "storage"]);
        assert_eq!(named(&sandbox(r#"[{"name": "istio-cni", "namespace": "default"}]"#)), ["istio-cni"]);
        let names: Vec<_> = (0..3).map(|number| at(&sandbox(""), number).ifname).collect();
        assert_eq!(names, ["eth0", "net1", "net2"]);
    }

    #[test]
    fn what_is_kept_of_a_delegate_is_what_it_is_deleted_with() {
        let single = br#"{"cniVersion":"0.3.1","name":"istio-cni","type":"istio-cni"}"#.to_vec();
        let list = br#"{"cniVersion":"1.0.0","name":"lab","plugins":[{"type":"lab-net"}]}"#.to_vec();
        for (text, is_list) in [(single, false), (list, true)] {
            let delegate = Delegate::read(text.clone(), is_list).unwrap();
            let again = Delegate::of_kept(&delegate.kept()).unwrap();
            assert_eq!((again.list, again.text), (delegate.list, text));
        }
    }
}
