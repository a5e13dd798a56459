// SPDX-License-Identifier: Apache-2.0
//! Results of earlier calls, one file for each sandbox, in the form that CNI's own library writes: other programs look
//! into these files to learn which plugin and which namespace a sandbox had.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::conflist::List;
use cluster::profile::CacheLayout;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::chain::Attachment;
use crate::error::Error;

/// Cached result of a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CachedResult {
    kind: String,
    container_id: String,
    /// Text of the conflist, base64.
    config: String,
    if_name: String,
    network_name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    netns: String,
    cni_args: Vec<(String, String)>,
    capability_args: Value,
    /// Result of the whole chain.
    pub result: Value,
}

impl CachedResult {
    /// Entry of an ADD.
    #[must_use]
    pub fn new(list: &List, attachment: &Attachment, result: &Value) -> Self {
        Self {
            kind: "cniCacheV1".to_owned(),
            container_id: attachment.container_id.clone(),
            config: STANDARD.encode(&list.text),
            if_name: attachment.ifname.clone(),
            network_name: list.name.clone(),
            netns: attachment.netns.clone(),
            cni_args: attachment.args.clone(),
            capability_args: serde_json::to_value(&attachment.capabilities).unwrap_or_default(),
            result: result.clone(),
        }
    }

    /// Attachment of the ADD.
    #[must_use]
    pub fn attachment(&self) -> Attachment {
        Attachment {
            container_id: self.container_id.clone(),
            netns: self.netns.clone(),
            ifname: self.if_name.clone(),
            args: self.cni_args.clone(),
            capabilities: serde_json::from_value(self.capability_args.clone()).unwrap_or_default(),
        }
    }

    /// Conflist of the ADD.
    #[must_use]
    pub fn list(&self) -> Option<List> {
        List::from_text(&STANDARD.decode(&self.config).ok()?).ok()
    }
}

/// Result cache of a node.
#[derive(Debug, Clone)]
pub struct Cache {
    directory: PathBuf,
    layout: CacheLayout,
}

impl Cache {
    /// Cache below `directory` (as `/var/lib/cni`).
    #[must_use]
    pub fn new(directory: &Path, layout: CacheLayout) -> Self {
        Self { directory: directory.join("results"), layout }
    }

    /// Remembers a result.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&self, mut entry: CachedResult) -> Result<(), Error> {
        if self.layout == CacheLayout::WithoutNetns {
            entry.netns.clear();
        }
        fs::create_dir_all(&self.directory).map_err(Error::file("make", &self.directory))?;
        let name = format!("{}-{}-{}", entry.network_name, entry.container_id, entry.if_name);
        let path = self.directory.join(name);
        fs::write(&path, serde_json::to_vec(&entry)?).map_err(Error::file("write", &path))
    }

    /// Entry of a sandbox, whatever its network is called.
    #[must_use]
    pub fn get(&self, attachment: &Attachment) -> Option<CachedResult> {
        serde_json::from_slice(&fs::read(self.find(attachment)?).ok()?).ok()
    }

    /// Entries of a network.
    #[must_use]
    pub fn of_network(&self, name: &str) -> Vec<CachedResult> {
        let files = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let entries = files.filter_map(|file| fs::read(file.path()).ok());
        let entries = entries.filter_map(|text| serde_json::from_slice::<CachedResult>(&text).ok());
        entries.filter(|entry| entry.network_name == name).collect()
    }

    /// Entry of a sandbox in the network of this name.
    #[must_use]
    pub fn get_of(&self, network: &str, attachment: &Attachment) -> Option<CachedResult> {
        self.get(attachment).filter(|entry| entry.network_name == network)
    }

    /// Forgets a sandbox.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn forget(&self, attachment: &Attachment) -> Result<(), Error> {
        let Some(path) = self.find(attachment) else { return Ok(()) };
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(Error::file("remove", path)),
        }
    }

    fn find(&self, attachment: &Attachment) -> Option<PathBuf> {
        let end = format!("-{}-{}", attachment.container_id, attachment.ifname);
        let entries = fs::read_dir(&self.directory).ok()?.flatten();
        entries.map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with(&end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_brings_its_list_back_and_is_forgotten_once() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(directory.path(), CacheLayout::WithNetns);
        let list = List::from_text(br#"{"name":"n-1","plugins":[{"type":"x"}]}"#).unwrap();
        let attachment = Attachment { container_id: "c".to_owned(), ..Attachment::default() };
        cache.put(CachedResult::new(&list, &attachment, &serde_json::json!({"ips": []}))).unwrap();
        assert!(directory.path().join("results/n-1-c-eth0").exists());
        assert_eq!(cache.get(&attachment).unwrap().list().unwrap(), list);
        cache.forget(&attachment).unwrap();
        cache.forget(&attachment).unwrap();
        assert!(cache.get(&attachment).is_none());
    }

    #[test]
    fn an_older_library_keeps_no_namespace() {
        let directory = tempfile::tempdir().unwrap();
        let list = List::from_text(br#"{"name":"n","plugins":[{"type":"x"}]}"#).unwrap();
        let netns = "/var/run/netns/x".to_owned();
        let attachment = Attachment { container_id: "c".to_owned(), netns, ..Attachment::default() };
        for (layout, kept) in [(CacheLayout::WithNetns, true), (CacheLayout::WithoutNetns, false)] {
            let cache = Cache::new(directory.path(), layout);
            cache.put(CachedResult::new(&list, &attachment, &Value::Null)).unwrap();
            let text = fs::read_to_string(directory.path().join("results/n-c-eth0")).unwrap();
            assert_eq!(text.contains(r#""netns":"/var/run/netns/x""#), kept, "{text}");
        }
    }
}
