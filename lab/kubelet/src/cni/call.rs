// SPDX-License-Identifier: Apache-2.0
//! One call of one plugin: a process in the node's namespace, and its answer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cluster::{Actor, ChainFailure, Chaos, CniAnswer, CniCall, Entering, Files, Kernel};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use crate::contention;
use crate::error::Error;
use crate::pace;
use crate::process::{FAKE_KERNEL, Program};
use crate::view::Viewed;

/// Mask of a runtime's unit that is hardened (`UMask=0077`); systemd's own is 0022.
const UMASK: u32 = 0o077;

/// Environment of a runtime's unit, as installers of clusters write it (`/etc/systemd/system/containerd.service.d/http-proxy.conf`), and systemd: plugins
/// inherit it. Nobody answers at the proxy.
const OF_UNIT: [(&str, &str); 9] = [
    ("HTTPS_PROXY", "http://192.0.2.1:3128"),
    ("HTTP_PROXY", "http://192.0.2.1:3128"),
    ("https_proxy", "http://192.0.2.1:3128"),
    ("NO_PROXY", "localhost,.example.com"),
    ("LANG", "de_DE.UTF-8"),
    ("TMPDIR", "/nowhere"),
    ("GODEBUG", "madvdontneed=1"),
    ("NOTIFY_SOCKET", "/run/systemd/notify"),
    ("INVOCATION_ID", "0123456789abcdef0123456789abcdef"),
];

/// Executor of plugins.
#[derive(Debug, Clone)]
pub struct Caller {
    pub bin_dir: PathBuf,
    pub netns: PathBuf,
    /// Environment of plugins beyond that of any runtime.
    pub extra_env: BTreeMap<String, String>,
    /// Program that runs another on a restricted kernel.
    pub workload: PathBuf,
    /// The plugin that runs on [`Caller::kernel`]; the others have the real one.
    pub under_test: &'static str,
    pub kernel: Kernel,
    /// View of plugins.
    pub view: Viewed,
    pub chaos: Chaos,
    /// Deadline of a plugin; the kubelet's with a runtime is 4 minutes, ours is shorter.
    pub deadline: Duration,
    /// The runtime's own, if it kills calls before that.
    pub patience: Option<Duration>,
}

/// Words about a call that was killed because it took too long.
const TOO_SLOW: &str = "killed: too slow";

impl Caller {
    /// Calls a plugin and waits for it. One that takes too long is killed: its answer has no exit code.
    ///
    /// # Errors
    /// The plugin cannot be started at all.
    pub async fn call(&self, call: &CniCall) -> Result<CniAnswer, Error> {
        self.call_on(call, &self.kernel).await
    }

    /// True if a call ended because the lab or the runtime killed it, as a scenario wants it.
    #[must_use]
    pub fn killed(&self, answer: &CniAnswer) -> bool {
        self.kernel.kill_at.is_some() || (self.patience.is_some() && answer.stderr == TOO_SLOW)
    }

    /// As [`Caller::call`], on another kernel than the usual one.
    ///
    /// # Errors
    /// The plugin cannot be started at all.
    pub async fn call_on(&self, call: &CniCall, kernel: &Kernel) -> Result<CniAnswer, Error> {
        let plugin = self.bin_dir.join(&call.plugin);
        let mut program = if call.plugin == self.under_test && is_another(kernel) {
            Program::new(&self.workload, fake_kernel(kernel, &plugin))
        } else {
            Program::new(&plugin, None::<String>)
        };
        if call.plugin == self.under_test {
            program.files = kernel.files;
        }
        program.view = Some(self.view.now());
        program.umask = Some(UMASK);
        program.env = OF_UNIT.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        program.env.extend(call.env.clone());
        program.env.extend(self.extra_env.clone());
        pace::late(&self.chaos, Actor::Process).await;
        let started = Instant::now();
        let mut child = program.spawn(&self.netns).await?;
        let stdin = child.stdin.take();
        let exchange = async {
            let write = async {
                if let Some(mut stdin) = stdin {
                    // A plugin that ends without reading all of its input is within its rights.
                    let _ = stdin.write_all(&call.stdin).await;
                }
            };
            tokio::join!(write, contention::wait_with_output(child)).1
        };
        let Ok(output) = tokio::time::timeout(self.patience.unwrap_or(self.deadline), exchange).await else {
            let took = started.elapsed();
            return Ok(CniAnswer {
                exit: None,
                stdout: String::new(),
                stderr: TOO_SLOW.to_owned(),
                took,
                waited: Duration::ZERO,
            });
        };
        let (output, waited) = output.map_err(Error::system("wait for a plugin"))?;
        Ok(CniAnswer::of(&output, started.elapsed(), waited))
    }
}

/// True if its system calls have to be changed.
fn is_another(kernel: &Kernel) -> bool {
    Kernel { files: Files::default(), ..kernel.clone() } != Kernel::default()
}

/// The arguments with which the workload binary runs a plugin on another kernel.
fn fake_kernel(kernel: &Kernel, plugin: &Path) -> Vec<String> {
    let mut arguments = vec![FAKE_KERNEL.to_owned()];
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    for lack in &kernel.without {
        option("--without", lack.name().to_owned());
    }
    for path in &kernel.deny {
        option("--deny", path.display().to_string());
    }
    if let Some(number) = kernel.kill_at {
        option("--kill-at", number.to_string());
    }
    if kernel.entering == Entering::Forbidden {
        arguments.push("--no-entering".to_owned());
    }
    arguments.extend(["--".to_owned(), plugin.display().to_string()]);
    arguments
}

/// A failed answer as the runtime reports it.
#[must_use]
pub fn failure(call: &CniCall, answer: &CniAnswer) -> ChainFailure {
    let command = match call.command() {
        "DEL" => "delete".to_owned(),
        other => other.to_lowercase(),
    };
    let error = answer.json();
    let (code, why) = match (&error, answer.stdout.trim().is_empty()) {
        (Value::Object(_), _) => {
            let text = |key: &str| error[key].as_str().filter(|text| !text.is_empty());
            let message = text("msg").unwrap_or_default();
            let details = text("details").map(|details| format!("; {details}")).unwrap_or_default();
            let code = error["code"].as_u64().and_then(|code| u32::try_from(code).ok());
            (code, format!("{message}{details}"))
        }
        (_, true) => (None, format!("netplugin failed with no error message: {:?}", answer.stderr)),
        (_, false) => {
            (None, format!("netplugin failed but error parsing its diagnostic message {:?}", answer.stdout))
        }
    };
    let message = match command.as_str() {
        // The library says where every other call failed.
        "status" => why,
        _ => format!("plugin type={:?} failed ({command}): {why}", call.plugin),
    };
    ChainFailure { plugin: Some(call.plugin.clone()), code, message }
}

/// Begin of the error of a missing plugin.
pub(super) const NOT_FOUND: &str = "failed to find plugin";

/// Error of a missing plugin.
#[must_use]
pub fn not_found(plugin: &str, bin_dir: &Path) -> ChainFailure {
    let message = format!("{NOT_FOUND} {plugin:?} in path [{}]", bin_dir.display());
    ChainFailure { plugin: Some(plugin.to_owned()), code: None, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(stdout: &str) -> ChainFailure {
        let call = CniCall {
            plugin: "p".to_owned(),
            env: [("CNI_COMMAND".to_owned(), "DEL".to_owned())].into(),
            stdin: Vec::new(),
        };
        let answer = CniAnswer {
            exit: Some(1),
            stdout: stdout.to_owned(),
            stderr: "e".to_owned(),
            took: Duration::ZERO,
            waited: Duration::ZERO,
        };
        failure(&call, &answer)
    }

    #[test]
    fn an_error_is_reported_with_code_message_and_details() {
        let failure = reported(r#"{"code":11,"msg":"try again","details":"d"}"#);
        assert_eq!(failure.code, Some(11));
        assert_eq!(failure.message, "plugin type=\"p\" failed (delete): try again; d");
    }

    #[test]
    fn no_error_or_no_json_is_told_apart() {
        assert!(reported("").message.contains("no error message: \"e\""));
        assert!(reported("oops").message.contains("error parsing its diagnostic message"));
    }
}
