// SPDX-License-Identifier: Apache-2.0
//! Programs of the product that the lab itself calls, for a version or for manifests. In a sandbox they have a root of their own with
//! nothing in it but them, no network and no rights. Elsewhere, for a run in somebody's cluster, they run as the caller does, and the
//! lab calls none but `install-cni manifests`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use kubelet::netns;
use kubelet::process::Program;
use kubelet::rights::Rights;
use kubelet::rootfs::{Mount, Root};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::binaries::PLUGIN;
use crate::plan::Sut;

/// Where roots are built: what is mounted there is seen by nobody else.
const BASE: &str = "/run/cnilab-alone";

/// Deadline of a version.
const PROMPT: Duration = Duration::from_secs(10);

/// A call of one of the product's programs.
#[derive(Debug, Default)]
pub struct Call {
    pub arguments: Vec<String>,
    pub environment: BTreeMap<String, String>,
    /// Standard input.
    pub input: String,
}

/// Runs a program of the product to its end.
///
/// # Errors
/// It cannot be started, or it does not end before the deadline.
pub async fn run(sut: &Sut, name: &str, call: Call, deadline: Duration) -> anyhow::Result<Output> {
    let path = sut.dir.join(name);
    if sut.is_sealed { confined(&path, call, deadline).await } else { plain(&path, call, deadline).await }
}

async fn confined(path: &Path, call: Call, deadline: Duration) -> anyhow::Result<Output> {
    std::fs::create_dir_all(BASE).with_context(|| format!("cannot make {BASE}"))?;
    let at = Path::new("/").join(path.file_name().unwrap_or_default());
    let mounts = vec![Mount::image(path, &at.display().to_string())];
    let program = Program {
        env: call.environment,
        rights: Rights::NONE,
        root: Some(Root { base: PathBuf::from(BASE), mounts }),
        ..Program::new(&at, call.arguments)
    };
    let output = program.finish(netns::OWN.as_ref(), call.input.as_bytes(), deadline).await;
    output.with_context(|| format!("cannot run {}", path.display()))
}

async fn plain(path: &Path, call: Call, deadline: Duration) -> anyhow::Result<Output> {
    let mut command = Command::new(path);
    command.args(call.arguments).env_clear().envs(call.environment).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let exchange = async {
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        let write = async {
            if let Some(mut stdin) = stdin {
                // One that ends before it has read anything is judged by its answer.
                let _ = stdin.write_all(call.input.as_bytes()).await;
            }
        };
        tokio::join!(write, child.wait_with_output()).1
    };
    ended(deadline, exchange).await.with_context(|| format!("cannot run {}", path.display()))
}

/// The end of a program, unless it is late.
async fn ended(
    deadline: Duration,
    output: impl Future<Output = io::Result<Output>>,
) -> anyhow::Result<Output> {
    let late = |_| anyhow!("it does not end within {deadline:?}");
    Ok(timeout(deadline, output).await.map_err(late)??)
}

/// Asks each program of a sealed product for its version. One that does not say it is of unknown version.
pub async fn ask_versions(sut: &mut Sut) {
    let names: Vec<_> = sut.binaries.iter().map(|binary| binary.name.clone()).collect();
    for (at, name) in names.iter().enumerate() {
        let said = version(sut, name).await.unwrap_or_else(|| "of unknown version".to_owned());
        if let Some(binary) = sut.binaries.get_mut(at) {
            binary.version = said;
        }
    }
}

/// The version of a program. A plugin that is called without a command says what it is on standard error; the others are asked.
async fn version(sut: &Sut, name: &str) -> Option<String> {
    let is_plugin = name == PLUGIN;
    let arguments = if is_plugin { Vec::new() } else { vec!["--version".to_owned()] };
    let output = run(sut, name, Call { arguments, ..Call::default() }, PROMPT).await.ok()?;
    if !output.status.success() {
        return None;
    }
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let begin = if is_plugin { format!("CNI plugin {name}") } else { name.to_owned() };
    let line = out.lines().chain(err.lines()).find(|line| line.starts_with(&begin))?;
    Some(line.trim_start_matches(&begin).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_program_that_hangs_is_not_waited_for() {
        let began = tokio::time::Instant::now();
        let error = ended(PROMPT, std::future::pending()).await.unwrap_err();
        assert_eq!(began.elapsed(), PROMPT);
        assert_eq!(error.to_string(), "it does not end within 10s");
    }
}
