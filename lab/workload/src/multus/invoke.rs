// SPDX-License-Identifier: Apache-2.0
//! Calls of a network's plugins, as CNI's library makes them: ADD in order with each result handed on, DEL in reverse. Plugins inherit Multus'
//! environment. Of capabilities Multus hands none on that a runtime of the lab gives: pods' annotations do not reach its delegates.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use cluster::{CniAnswer, CniCall};
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::network::Network;
use super::places::PLACES;
use super::{Call, RECORD};

/// Executor of a network's plugins for one sandbox.
#[derive(Debug, Clone, Copy)]
pub struct Invoker<'a> {
    pub call: &'a Call,
    /// Directories of plugins, as they are named and where they are.
    pub binaries: &'a [(PathBuf, PathBuf)],
    pub network: &'a Network,
    pub interface: &'a str,
}

impl Invoker<'_> {
    /// ADD.
    ///
    /// # Errors
    /// A plugin failed, in the library's words.
    pub async fn add(&self) -> Result<Value, String> {
        let mut previous: Option<Value> = None;
        for plugin in &self.network.plugins {
            previous = Some(self.one("ADD", plugin, previous.as_ref()).await?);
        }
        Ok(previous.unwrap_or_default())
    }

    /// DEL.
    ///
    /// # Errors
    /// A plugin failed; the ones before it in the list were not called then.
    pub async fn del(&self, result: Option<Value>) -> Result<(), String> {
        let previous = result.filter(|_| self.network.speaks(0, 4));
        for plugin in self.network.plugins.iter().rev() {
            self.one("DEL", plugin, previous.as_ref()).await?;
        }
        Ok(())
    }

    async fn one(
        &self,
        command: &str,
        plugin: &Map<String, Value>,
        previous: Option<&Value>,
    ) -> Result<Value, String> {
        let kind = plugin.get("type").and_then(Value::as_str).unwrap_or_default();
        let path = self.binaries.iter().map(|(_, place)| place.join(kind)).find(|path| path.is_file());
        let path = path.ok_or_else(|| {
            let names: Vec<_> = self.binaries.iter().map(|(name, _)| name.display().to_string()).collect();
            format!("failed to find plugin {kind:?} in path [{}]", names.join(" "))
        })?;
        let asked = CniCall {
            plugin: kind.to_owned(),
            env: self.environment(command),
            stdin: self.input(plugin, previous).to_string().into_bytes(),
        };
        let answer = run(&path, &asked).await.map_err(|error| error.to_string())?;
        self.record(&asked, &answer);
        if answer.exit == Some(0) { Ok(answer.json()) } else { Err(self.failure(command, kind, &answer)) }
    }

    fn failure(&self, command: &str, kind: &str, answer: &CniAnswer) -> String {
        let error = answer.json();
        let why = match (error["msg"].as_str(), error["details"].as_str().filter(|text| !text.is_empty())) {
            (Some(message), Some(details)) => format!("{message}; {details}"),
            (Some(message), None) => message.to_owned(),
            (None, _) => format!("netplugin failed with no error message: {:?}", answer.stderr),
        };
        let command = if command == "DEL" { "delete".to_owned() } else { command.to_lowercase() };
        // The library says only of a list's plugins whose failure it is.
        if self.network.is_list { format!("plugin type={kind:?} failed ({command}): {why}") } else { why }
    }

    /// CNI's variables of a call; the arguments are those that Multus makes anew.
    fn environment(&self, command: &str) -> BTreeMap<String, String> {
        let mut env = self.call.environment.clone();
        for own in [RECORD, PLACES] {
            env.remove(own);
        }
        let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
        set("CNI_COMMAND", command.to_owned());
        set(
            "CNI_PATH",
            self.binaries.iter().map(|(_, place)| place.display().to_string()).collect::<Vec<_>>().join(":"),
        );
        if !self.interface.is_empty() {
            set("CNI_IFNAME", self.interface.to_owned());
            let named = ["K8S_POD_NAMESPACE", "K8S_POD_NAME", "K8S_POD_INFRA_CONTAINER_ID", "K8S_POD_UID"];
            let pairs = named.map(|name| format!("{name}={}", self.call.argument(name)));
            set("CNI_ARGS", format!("IgnoreUnknown=true;{}", pairs.join(";")));
        }
        env
    }

    fn input(&self, plugin: &Map<String, Value>, previous: Option<&Value>) -> Value {
        let mut input = plugin.clone();
        input.insert("name".to_owned(), json!(self.network.name));
        input.insert("cniVersion".to_owned(), json!(self.network.version));
        if let Some(previous) = previous {
            input.insert("prevResult".to_owned(), previous.clone());
        }
        Value::Object(input)
    }

    fn record(&self, call: &CniCall, answer: &CniAnswer) {
        let line = json!([call, answer]);
        let file = OpenOptions::new().create(true).append(true).open(self.call.get(RECORD));
        // Without a record the calls are not counted.
        let _ = file.and_then(|mut file| writeln!(file, "{line}"));
    }
}

/// Runs a plugin to its end.
async fn run(path: &Path, call: &CniCall) -> std::io::Result<CniAnswer> {
    let started = Instant::now();
    let mut command = Command::new(path);
    command.env_clear().envs(&call.env).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A plugin that ends without reading all of its input is within its rights.
        let _ = stdin.write_all(&call.stdin).await;
    }
    let output = child.wait_with_output().await?;
    Ok(CniAnswer::of(&output, started.elapsed(), Duration::ZERO))
}
