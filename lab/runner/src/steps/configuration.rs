// SPDX-License-Identifier: Apache-2.0
//! The configurations of networks on the node, and what others than the agent do to them.

use cluster::PRIMARY;
use cucumber::gherkin;
use cucumber::{given, then, when};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cluster::conflist::is_configuration;
use cluster::hand::{Bytes, Changes, Found, Writing};

use super::agent::{agent, bare};
use super::files::{files, wrong};
use super::moments::{self, Demand};
use crate::binaries::PLUGIN;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect, expect_eq};

/// Deadline of a heal.
const SOON: Duration = Duration::from_secs(5);

/// Changes of a directory, in order, since the watch began.
#[derive(Debug)]
pub struct Watched {
    changes: Changes,
    before: BTreeMap<String, Found>,
}

/// Writes the text below the step, atomically.
#[given(regex = r#"^somebody writes "([^"]+)":$"#)]
#[when(regex = r#"^somebody writes "([^"]+)":$"#)]
async fn somebody_writes(world: &mut LabWorld, file: String, step: &gherkin::Step) -> Step {
    bare(world)?;
    let text = step.docstring.as_deref().ok_or_else(|| Stop::harness("no text is below the step"))?;
    let node = files(world).await?;
    node.write(&node.paths.conf_dir.join(file), text.trim_start()).await
}

/// A `.conf` of the primary replaces its list.
#[given(regex = r#"^the network is configured by "([^"]+)"$"#)]
async fn configured_by(world: &mut LabWorld, file: String) -> Step {
    bare(world)?;
    let node = files(world).await?;
    let directory = &node.paths.conf_dir;
    let list = node.json(&directory.join(PRIMARY)).await?;
    let mut single = list["plugins"][0].clone();
    single["name"] = list["name"].clone();
    single["cniVersion"] = list["cniVersion"].clone();
    node.write(&directory.join(file), single.to_string()).await?;
    Ok(node.hand.remove(&directory.join(PRIMARY)).await?)
}

/// Adds a key at the top of a file.
#[given(regex = r#"^somebody adds "([^"]+)" = (.+) to "([^"]+)"$"#)]
#[when(regex = r#"^somebody adds "([^"]+)" = (.+) to "([^"]+)"$"#)]
async fn somebody_adds(world: &mut LabWorld, key: String, value: String, file: String) -> Step {
    bare(world)?;
    let node = files(world).await?;
    let path = node.paths.conf_dir.join(file);
    let text = node.text(&path).await?;
    node.write(&path, text.replacen('{', &format!("{{\n  \"{key}\": {value},"), 1)).await
}

/// Removes the file.
#[when(regex = r#"^somebody removes "([^"]+)"$"#)]
async fn somebody_removes(world: &mut LabWorld, file: String) -> Step {
    let node = files(world).await?;
    Ok(node.hand.remove(&node.paths.conf_dir.join(file)).await?)
}

/// Renames the file.
#[when(regex = r#"^somebody renames "([^"]+)" to "([^"]+)"$"#)]
async fn somebody_renames(world: &mut LabWorld, from: String, to: String) -> Step {
    let node = files(world).await?;
    let directory = &node.paths.conf_dir;
    Ok(node.hand.rename(&directory.join(from), &directory.join(to)).await?)
}

/// Fights: renames it again after each heal.
#[when(regex = r#"^somebody renames "([^"]+)" to "([^"]+)" (\d+) times, as soon as it is there$"#)]
async fn renames_again(world: &mut LabWorld, from: String, to: String, times: u32) -> Step {
    let node = files(world).await?;
    let directory = &node.paths.conf_dir;
    let (from, to) = (directory.join(from), directory.join(to));
    for _ in 0..times {
        node.until(SOON, &[&from], async || node.hand.rename(&from, &to).await.map_err(wrong)).await?;
    }
    Ok(())
}

fn before(world: &LabWorld, file: &str) -> Result<Vec<u8>, Stop> {
    let text = world.agent.before.get(file).cloned();
    text.ok_or_else(|| Stop::harness(format!("there was no {file} before the agent")))
}

/// Atomically, as it was before the deployment.
#[when(regex = r#"^somebody restores "([^"]+)"$"#)]
async fn somebody_restores(world: &mut LabWorld, file: String) -> Step {
    let text = before(world, &file)?;
    let node = files(world).await?;
    node.write(&node.paths.conf_dir.join(file), text).await
}

/// Truncates and rewrites the file as it was before the deployment.
#[when(regex = r#"^somebody restores "([^"]+)" in place$"#)]
async fn somebody_restores_in_place(world: &mut LabWorld, file: String) -> Step {
    let text = before(world, &file)?;
    let node = files(world).await?;
    Ok(node.hand.write(&node.paths.conf_dir.join(file), &text, Writing::InPlace).await?)
}

/// Fights: restores it again after each heal.
#[when(regex = r#"^somebody restores "([^"]+)" (\d+) times, as soon as it is (changed|gone)$"#)]
async fn fights(world: &mut LabWorld, file: String, times: u32, how: String) -> Step {
    let text = before(world, &file)?;
    let node = files(world).await?;
    let path = node.paths.conf_dir.join(file);
    for _ in 0..times {
        let healed = async || match how.as_str() {
            "gone" => Ok(!node.exists(&path).await?),
            _ => Ok::<_, Stop>(node.text(&path).await?.contains(PLUGIN)),
        };
        node.until(SOON, &[&path], async || expect(healed().await?, || "nobody changed it")).await?;
        node.write(&path, &text).await?;
    }
    Ok(())
}

/// Its content moves to a directory of this name beside it.
#[given(regex = r#"^the plugins' directory is a link to "([^"/]+)"$"#)]
async fn behind_a_link(world: &mut LabWorld, name: String) -> Step {
    bare(world)?;
    let node = files(world).await?;
    let link = &node.paths.bin_dir;
    node.hand.rename(link, &link.with_file_name(&name)).await?;
    Ok(node.hand.link(link, Path::new(&name)).await?)
}

/// `ln -sfn`, as an upgrade of k3s does. The new directory has every plugin but the node agent's.
#[when(regex = r#"^the plugins' directory becomes a link to "([^"/]+)"$"#)]
async fn turned(world: &mut LabWorld, name: String) -> Step {
    let node = files(world).await?;
    let link = &node.paths.bin_dir;
    let (new, former) = (link.with_file_name(&name), format!("former-of-{name}"));
    node.hand.make_directory(&new).await?;
    for entry in node.hand.list(link).await?.into_iter().filter(|entry| entry.name != PLUGIN) {
        let target = Path::new("..").join(&former).join(&entry.name);
        node.hand.link(&new.join(&entry.name), &target).await?;
    }
    // The link itself becomes the way to what was there before.
    node.hand.rename(link, &link.with_file_name(&former)).await?;
    Ok(node.hand.link(link, Path::new(&name)).await?)
}

/// Recreates it with its former files. One that was moved ends below it, where the end of the scenario removes it.
#[when(regex = "^the CNI directory is (deleted|moved away) and made again$")]
async fn made_again(world: &mut LabWorld, how: String) -> Step {
    let tier = world.cluster().await?;
    // Nobody could give somebody's node its network back.
    tier.machines()?.lose_sight(tier.node()?.name());
    let node = files(world).await?;
    let directory = &node.paths.conf_dir;
    let aside = directory.with_extension("moved");
    if how == "deleted" {
        node.hand.remove(directory).await?;
        node.hand.make_directory(directory).await?;
    } else {
        node.hand.rename(directory, &aside).await?;
        node.hand.make_directory(directory).await?;
        node.hand.rename(&aside, &directory.join("moved")).await?;
    }
    for (file, text) in &world.agent.before {
        node.write(&directory.join(file), text).await?;
    }
    Ok(())
}

/// Records every change in order, and reads each configuration as it comes.
#[given("the CNI directory is watched")]
async fn watched(world: &mut LabWorld) -> Step {
    bare(world)?;
    let node = files(world).await?;
    let paths = &node.paths;
    let changes = node.hand.watch_networks(&paths.conf_dir, &paths.bin_dir).await?;
    let plugins: Vec<_> = node.hand.list(&paths.bin_dir).await?.into_iter().map(|entry| entry.name).collect();
    let found = |content| Found { content: Some(Bytes(content)), late: false, plugins: plugins.clone() };
    let all = node.all(&paths.conf_dir).await?.into_iter();
    let before = all.filter(|(name, _)| is_configuration(Path::new(name)));
    let before = before.map(|(name, content)| (name, found(content))).collect();
    world.watched = Some(Watched { changes, before });
    Ok(())
}

/// Each configuration was read at its change, as a runtime does: the first in order of name was whole, and had plugins whose binaries are there. `at every
/// moment`: one that was replaced before it was read makes the scenario inconclusive; `whenever it was read`: a runtime as fast as the lab would have missed
/// it as well.
#[then(regex = "^(at every moment|whenever it was read) it held a whole network$")]
async fn always_whole(world: &mut LabWorld, how: String) -> Step {
    let watched = world.watched.take().ok_or_else(|| Stop::harness("the directory is not watched"))?;
    let demand = if how == "at every moment" { Demand::EveryMoment } else { Demand::WheneverRead };
    moments::judge(&watched.before, &watched.changes.stop().await?, demand)
}

/// Waits until it is gone, and then for so long that nothing brings it back.
#[then(regex = r#"^the configuration "([^"]+)" is not there for (\d+) s$"#)]
async fn not_there(world: &mut LabWorld, file: String, seconds: u64) -> Step {
    let node = files(world).await?;
    node.absent(&node.paths.conf_dir.join(file), Duration::from_secs(seconds)).await
}

/// Waits for a text in the file.
#[then(regex = r#"^the configuration "([^"]+)" contains "(.+)"$"#)]
async fn contains(world: &mut LabWorld, file: String, text: String) -> Step {
    let node = files(world).await?;
    let path = node.paths.conf_dir.join(file);
    let text = text.replace('\'', "\"");
    node.until(SOON, &[&path], async || match node.text(&path).await? {
        found if found.contains(&text) => Ok(()),
        found => Err(Stop::wrong(format!("it is {found}"))),
    })
    .await
}

/// Waits for an octal mode.
#[then(regex = r#"^the configuration "([^"]+)" has the mode ([0-7]+)$"#)]
async fn has_mode(world: &mut LabWorld, file: String, wanted: String) -> Step {
    let node = files(world).await?;
    let path = node.paths.conf_dir.join(file);
    node.until(SOON, &[&path], async || match node.hand.look(&path).await?.map(|entry| entry.mode) {
        Some(mode) if format!("{mode:o}") == wanted => Ok(()),
        Some(mode) => Err(Stop::wrong(format!("it has {mode:o}"))),
        None => Err(Stop::wrong("it is not there")),
    })
    .await
}

/// Reads any path of the node.
#[then(regex = r#"^"(/[^"]+)" of the node contains "(.+)"$"#)]
async fn of_the_node(world: &mut LabWorld, path: String, text: String) -> Step {
    let node = files(world).await?;
    let (found, text) = (node.text(Path::new(&path)).await?, text.replace('\'', "\""));
    expect(found.contains(&text), || format!("it is {found}"))
}

/// Waits until nothing is there, and then for so long that nothing comes.
#[then(regex = r#"^"(/[^"]+)" of the node is not there for (\d+) s$"#)]
async fn not_on_the_node(world: &mut LabWorld, path: String, seconds: u64) -> Step {
    files(world).await?.absent(Path::new(&path), Duration::from_secs(seconds)).await
}

/// Octal mode of any path of the node; a link is not followed. Whoever is not root has no business there.
#[then(regex = r#"^"(/[^"]+)" of the node has the mode ([0-7]+) and is root's$"#)]
async fn mode_on_the_node(world: &mut LabWorld, path: String, wanted: String) -> Step {
    let node = files(world).await?;
    let path = Path::new(&path);
    node.until(SOON, &[path], async || {
        let found = node.hand.look(path).await?.ok_or_else(|| Stop::wrong("it is not there"))?;
        let found = (format!("{:o}", found.mode), found.owner);
        expect_eq("its mode and owner", &found, &(wanted.clone(), (0, 0)))
    })
    .await
}

/// In no line so far.
#[then(regex = r#"^the node agent never said "(.+)"$"#)]
async fn never_said(world: &mut LabWorld, fragment: String) -> Step {
    let pod = agent(world).await?;
    let workload = world.cluster().await?.starting(&pod).await?;
    is_in_no_line(workload.logs().await?, &fragment)
}

/// A log without a line proves nothing.
pub fn is_in_no_line(lines: Vec<String>, fragment: &str) -> Step {
    if lines.is_empty() {
        return Err(Stop::wrong("it said nothing at all"));
    }
    match lines.into_iter().find(|line| line.contains(fragment)) {
        Some(line) => Err(Stop::wrong(line)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_said_nothing_did_not_keep_silent_about_something() {
        let lines = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        assert!(is_in_no_line(lines(&["ready"]), "token").is_ok());
        assert!(is_in_no_line(lines(&["ready", "a token"]), "token").is_err());
        assert!(is_in_no_line(lines(&[]), "token").is_err());
    }
}
