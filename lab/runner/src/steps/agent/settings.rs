// SPDX-License-Identifier: Apache-2.0
//! Effects of changed settings on the running agent.

use cucumber::{then, when};
use serde_json::{Value, json};
use std::time::Duration;

use super::objects::CONFIG_MAP;
use super::{agents, patch_config_map};
use crate::binaries::PLUGIN;
use crate::steps::files::{Files, files};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Deadline of a change.
const SOON: Duration = Duration::from_secs(10);

/// Removes the key.
#[when(regex = r#"^its ConfigMap no longer has "([A-Z_0-9]+)"$"#)]
async fn unset(world: &mut LabWorld, key: String) -> Step {
    patch_config_map(world, CONFIG_MAP, json!({ key: null })).await
}

/// Our only entry in a configuration.
async fn entry(node: &Files, file: &str) -> Result<Value, Stop> {
    let path = node.paths.conf_dir.join(file);
    let found = node.json(&path).await?;
    let plugins = found["plugins"].as_array().cloned().unwrap_or_else(|| vec![found.clone()]);
    let ours: Vec<Value> = plugins.into_iter().filter(|plugin| plugin["type"] == PLUGIN).collect();
    match <[Value; 1]>::try_from(ours) {
        Ok([entry]) => Ok(entry),
        Err(others) => Err(Stop::wrong(format!("{}: our entries are {}", path.display(), json!(others)))),
    }
}

/// Waits for a key of our only entry, as JSON.
#[then(regex = r#"^our entry in "([^"]+)" has "([^"]+)" = (.+?)(?: within (\d+) ms)?$"#)]
async fn has(world: &mut LabWorld, file: String, key: String, value: String, millis: String) -> Step {
    let wanted: Value = serde_json::from_str(&value).map_err(Stop::harness)?;
    let deadline = millis.parse().map_or(SOON, Duration::from_millis);
    let node = files(world).await?;
    let path = node.paths.conf_dir.join(&file);
    node.until(deadline, &[&path], async || match entry(&node, &file).await?[&key].clone() {
        found if found == wanted => Ok(()),
        found => Err(Stop::wrong(format!("{key} is {found}"))),
    })
    .await
}

/// The key is absent.
#[then(regex = r#"^our entry in "([^"]+)" has no "([^"]+)"$"#)]
async fn lacks(world: &mut LabWorld, file: String, key: String) -> Step {
    match entry(&files(world).await?, &file).await?.get(&key) {
        None => Ok(()),
        Some(found) => Err(Stop::wrong(format!("{key} is {found}"))),
    }
}

/// Its container was never restarted.
#[then("the node agent runs since its start")]
async fn no_restart(world: &mut LabWorld) -> Step {
    let pods = agents(world).await?;
    let states =
        pods.iter().flat_map(|pod| pod["status"]["containerStatuses"].as_array().into_iter().flatten());
    let starts: Vec<&Value> = states.map(|state| &state["restartCount"]).collect();
    if starts.len() == 1 && *starts[0] == 0 {
        return Ok(());
    }
    Err(Stop::wrong(format!("its containers were started again so often: {starts:?}")))
}
