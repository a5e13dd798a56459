// SPDX-License-Identifier: Apache-2.0
//! Rendered objects of the installation: the program under test renders them, as `install-cni manifests` does for an operator. Equal values
//! are rendered once per run.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::binaries::AGENT;
use crate::binaries::MUTANT;

/// The image that scenarios deploy; the lab's kubelet has it, whatever it is called.
const IMAGE: &str = "registry.example.com/mesh/install-cni:lab";

/// Deadline of a rendering. It reads text and makes no requests.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// The values of a scenario, and the defect that its program plays.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RenderKey {
    values: String,
    mutant: Option<String>,
}

/// Objects of a rendering, once it has ended.
type Once = Arc<OnceCell<Arc<Vec<Value>>>>;

/// Cache of renderings.
#[derive(Debug)]
pub struct Rendered {
    image: String,
    known: Mutex<BTreeMap<RenderKey, Once>>,
}

impl Rendered {
    /// Renderings with this image, or the one that the lab's kubelet has.
    #[must_use]
    pub fn with(image: Option<&str>) -> Self {
        Self { image: image.unwrap_or(IMAGE).to_owned(), known: Mutex::default() }
    }

    /// The objects that these values make, in the order in which they are to be applied.
    pub async fn objects(
        &self,
        sut: &Path,
        mutant: Option<&str>,
        values: &Value,
    ) -> anyhow::Result<Arc<Vec<Value>>> {
        let key = RenderKey { values: values.to_string(), mutant: mutant.map(str::to_owned) };
        let known = {
            let mut all = self.known.lock();
            Arc::clone(all.entry(key.clone()).or_default())
        };
        let program = sut.join(AGENT);
        let rendered =
            async || render(&program, &self.image, &key.values, key.mutant.as_deref()).await.map(Arc::new);
        known.get_or_try_init(rendered).await.map(Arc::clone)
    }
}

/// Objects of an installation with this image.
pub async fn render(
    program: &Path,
    image: &str,
    values: &str,
    mutant: Option<&str>,
) -> anyhow::Result<Vec<Value>> {
    let mut file = tempfile::NamedTempFile::new().context("cannot make a file of values")?;
    file.write_all(values.as_bytes()).context("cannot write values")?;
    let mut command = Command::new(program);
    command.args(["manifests", "--output", "json", "--image", image, "--values"]).arg(file.path());
    command.env_clear().stdin(Stdio::null()).kill_on_drop(true);
    command.envs(mutant.map(|name| (MUTANT, name)));
    let output =
        ended(command.output()).await?.with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        bail!("install-cni manifests: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    let mut list: Value = serde_json::from_slice(&output.stdout)
        .context("install-cni manifests prints something that is no JSON")?;
    match list["items"].take() {
        Value::Array(objects) if !objects.is_empty() => Ok(objects),
        _ => bail!("install-cni manifests prints no list of objects: {list}"),
    }
}

/// The end of a rendering, unless it is late.
async fn ended(output: impl Future<Output = io::Result<Output>>) -> anyhow::Result<io::Result<Output>> {
    timeout(DEADLINE, output)
        .await
        .with_context(|| format!("install-cni manifests does not end within {DEADLINE:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_program_that_hangs_is_not_waited_for() {
        let began = tokio::time::Instant::now();
        let error = ended(std::future::pending()).await.unwrap_err();
        assert_eq!(began.elapsed(), DEADLINE);
        assert_eq!(error.to_string(), "install-cni manifests does not end within 30s");
    }
}
