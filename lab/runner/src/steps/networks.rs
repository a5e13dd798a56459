// SPDX-License-Identifier: Apache-2.0
//! Networks of others on the node: the lists that they write (`scenarios/networks`), and when they write them again.

use cluster::hand::Writing;
use cluster::{LabError, PRIMARY};
use cucumber::{given, when};
use serde::Deserialize;
use serde_json::{Value, json};

use super::agent::bare;
use super::files::files;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// A file of `scenarios/networks`.
#[derive(Debug, Deserialize)]
struct Network {
    file: String,
    /// Text of the file, as its owner writes it: a list, or one plugin.
    list: String,
}

/// Its list and plugins of its names. The first plugin wires pods as the node's own network does, which it has beside its own keys; the others hand the
/// result on, where the node has no such plugin itself.
#[given(regex = r#"^the node's network is that of "([a-z0-9-]+)"$"#)]
async fn network(world: &mut LabWorld, name: String) -> Step {
    bare(world)?;
    let tier = world.cluster().await?;
    let lacks = |what: String| Stop::from(LabError::unsupported(tier.tier(), what));
    if tier.machines().is_err() {
        return Err(lacks("give a node the network of somebody else".to_owned()));
    }
    let file = world.lab()?.plan.root.join(format!("scenarios/networks/{name}.yaml"));
    let text = std::fs::read_to_string(file).map_err(Stop::harness)?;
    let network: Network = serde_saphyr::from_str(&text).map_err(Stop::harness)?;
    let node = files(world).await?;
    let first = node.json(&node.paths.conf_dir.join(PRIMARY)).await?;
    let mut own = first["plugins"][0].clone();
    own["name"] = first["name"].clone();
    let list: Value = serde_json::from_str(&network.list).map_err(Stop::harness)?;
    let program = world.lab()?.plan.workload.clone();
    let plugins = list["plugins"].as_array().map_or(std::slice::from_ref(&list), Vec::as_slice);
    for (place, plugin) in plugins.iter().enumerate() {
        let name = plugin["type"].as_str().unwrap_or_default();
        let at = node.paths.bin_dir.join(name);
        match node.exists(&at).await? {
            true if place == 0 => return Err(lacks(format!("replace the plugin {name}, which it has"))),
            true => {}
            false => node.hand.link(&at, &program).await?,
        }
    }
    node.write(&node.paths.conf_dir.join(&network.file), wired(&network.list, &own)?).await?;
    Ok(node.hand.remove(&node.paths.conf_dir.join(PRIMARY)).await?)
}

/// The list with the node's own network in its first plugin, or the one plugin with it, which is otherwise as its owner wrote it.
fn wired(list: &str, base: &Value) -> Result<String, Stop> {
    let first = list.find("\"plugins\"").unwrap_or(0);
    let begin = list[first..].find('{').map(|at| first + at);
    let begin = begin.ok_or_else(|| Stop::harness("the configuration has no plugin"))?;
    Ok(format!("{}{{\"wiredBy\": {base}, {}", &list[..begin], &list[begin + 1..]))
}

/// Behind whatever is there, ours as well.
#[when(regex = r#"^the owner of "([^"]+)" appends the plugin "([^"]+)"$"#)]
async fn appends(world: &mut LabWorld, file: String, plugin: String) -> Step {
    let node = files(world).await?;
    let at = node.paths.bin_dir.join(&plugin);
    if !node.exists(&at).await? {
        let program = world.lab()?.plan.workload.clone();
        node.hand.link(&at, &program).await?;
    }
    let path = node.paths.conf_dir.join(file);
    let mut list = node.json(&path).await?;
    if let Some(plugins) = list["plugins"].as_array_mut() {
        plugins.push(json!({ "type": plugin }));
    }
    node.write(&path, format!("{list:#}")).await
}

/// As on a real node, and no link to a program of the lab: the agent's container can ask it for its versions.
#[given(regex = r#"^the node's plugin "([^"]+)" is a file$"#)]
async fn is_a_file(world: &mut LabWorld, plugin: String) -> Step {
    bare(world)?;
    let node = files(world).await?;
    let program = world.lab()?.plan.workload.clone();
    let content = std::fs::read(&program).map_err(Stop::harness)?;
    let path = node.paths.bin_dir.join(plugin);
    Ok(node.hand.write(&path, &content, Writing::Whole { mode: 0o755 }).await?)
}

/// As while a package replaces it, or after it was downgraded to one that the node cannot run.
#[when(regex = r#"^the node's plugin "([^"]+)" is replaced by one that does not start$"#)]
async fn breaks(world: &mut LabWorld, plugin: String) -> Step {
    let node = files(world).await?;
    node.write(&node.paths.bin_dir.join(plugin), "no program").await
}

/// A plugin of the list writes it, when it is asked for its versions: after the agent has read the list, and before it writes.
#[given(
    regex = r#"^the owner of "([^"]+)" appends the plugin "([^"]+)" when its plugins are asked for their versions$"#
)]
async fn appends_meanwhile(world: &mut LabWorld, file: String, plugin: String) -> Step {
    const OWNER: &str = "list-owner";
    bare(world)?;
    let node = files(world).await?;
    let program = world.lab()?.plan.workload.clone();
    // Not a link: the agent's container calls it.
    let content = std::fs::read(&program).map_err(Stop::harness)?;
    let own = node.paths.bin_dir.join(OWNER);
    node.hand.write(&own, &content, Writing::Whole { mode: 0o755 }).await?;
    node.hand.link(&node.paths.bin_dir.join(&plugin), &program).await?;
    let path = node.paths.conf_dir.join(&file);
    let mut list = node.json(&path).await?;
    for (name, to) in [(OWNER, path), (&plugin, node.paths.conf_dir.join(format!("{file}.next")))] {
        if let Some(plugins) = list["plugins"].as_array_mut() {
            plugins.push(json!({ "type": name }));
        }
        node.write(&to, format!("{list:#}")).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_lists_of_others_keep_their_text() {
        let base = json!({ "ranges": ["10.0.0.0/24"], "networks": {}, "stateDir": "/s" });
        for entry in
            std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/networks")).unwrap()
        {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let network: Network = serde_saphyr::from_str(&text).unwrap();
            let wired = wired(&network.list, &base).unwrap();
            let (was, is): (Value, Value) =
                (serde_json::from_str(&network.list).unwrap(), serde_json::from_str(&wired).unwrap());
            let first = |network: &Value| network.pointer("/plugins/0").unwrap_or(network).clone();
            assert_eq!(first(&is)["wiredBy"], base, "{}", network.file);
            assert_eq!(first(&is)["type"], first(&was)["type"]);
            assert_eq!(wired.len() - network.list.len(), format!("\"wiredBy\": {base}, ").len());
        }
    }
}
