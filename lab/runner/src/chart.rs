// SPDX-License-Identifier: Apache-2.0
//! Rendered objects of the installation: the program under test renders them, as `install-cni manifests` does for an operator. Equal values
//! are rendered once per run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::alone::{self, Call};
use crate::binaries::AGENT;
use crate::binaries::MUTANT;
use crate::plan::Sut;

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
        sut: &Sut,
        mutant: Option<&str>,
        values: &Value,
    ) -> anyhow::Result<Arc<Vec<Value>>> {
        let key = RenderKey { values: values.to_string(), mutant: mutant.map(str::to_owned) };
        let known = {
            let mut all = self.known.lock();
            Arc::clone(all.entry(key.clone()).or_default())
        };
        let rendered =
            async || render(sut, &self.image, &key.values, key.mutant.as_deref()).await.map(Arc::new);
        known.get_or_try_init(rendered).await.map(Arc::clone)
    }
}

/// Objects of an installation with this image.
pub async fn render(
    sut: &Sut,
    image: &str,
    values: &str,
    mutant: Option<&str>,
) -> anyhow::Result<Vec<Value>> {
    let words = ["manifests", "--output", "json", "--image", image, "--values", "-"];
    let call = Call {
        arguments: words.map(str::to_owned).to_vec(),
        environment: mutant.map(|name| (MUTANT.to_owned(), name.to_owned())).into_iter().collect(),
        input: values.to_owned(),
    };
    let output = alone::run(sut, AGENT, call, DEADLINE).await?;
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
