// SPDX-License-Identifier: Apache-2.0
//! The configurations of networks on the node, and what others than the agent do to them.

use cucumber::gherkin;
use cucumber::{given, then, when};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::agent::{agent, bare, eventually, paths};
use crate::binaries::PLUGIN;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Deadline of a heal.
const SOON: Duration = Duration::from_secs(5);

/// Configuration of the lab's primary CNI.
const PRIMARY: &str = "10-lab.conflist";

/// Changes of a directory, in order, since the watch began.
#[derive(Debug)]
pub struct Watched {
    events: Inotify,
    before: BTreeSet<String>,
}

async fn conf_dir(world: &mut LabWorld) -> Result<PathBuf, Stop> {
    Ok(paths(world).await?.conf_dir)
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Stop {
    move |error| Stop::harness(format!("{}: {error}", path.display()))
}

/// Atomic write, as by a well-behaved writer.
fn write(path: &Path, text: &[u8]) -> Step {
    let next = path.with_file_name(".next");
    fs::write(&next, text).map_err(failed(&next))?;
    fs::rename(&next, path).map_err(failed(path))
}

fn read(path: &Path) -> Result<String, Stop> {
    fs::read_to_string(path).map_err(|error| Stop::wrong(format!("{}: {error}", path.display())))
}

fn object(path: &Path) -> Result<Value, Stop> {
    let text = read(path)?;
    serde_json::from_str(&text).map_err(|error| Stop::wrong(format!("{}: {error}: {text}", path.display())))
}

/// Writes the text below the step, atomically.
#[given(regex = r#"^somebody writes "([^"]+)":$"#)]
#[when(regex = r#"^somebody writes "([^"]+)":$"#)]
async fn somebody_writes(world: &mut LabWorld, file: String, step: &gherkin::Step) -> Step {
    bare(world)?;
    let text = step.docstring.as_deref().ok_or_else(|| Stop::harness("no text is below the step"))?;
    write(&conf_dir(world).await?.join(file), text.trim_start().as_bytes())
}

/// A `.conf` of the primary replaces its list.
#[given(regex = r#"^the network is configured by "([^"]+)"$"#)]
async fn configured_by(world: &mut LabWorld, file: String) -> Step {
    bare(world)?;
    let directory = conf_dir(world).await?;
    let list = object(&directory.join(PRIMARY))?;
    let mut single = list["plugins"][0].clone();
    single["name"] = list["name"].clone();
    single["cniVersion"] = list["cniVersion"].clone();
    write(&directory.join(file), single.to_string().as_bytes())?;
    let list = directory.join(PRIMARY);
    fs::remove_file(&list).map_err(failed(&list))
}

/// Adds a key at the top of a file.
#[given(regex = r#"^somebody adds "([^"]+)" = (.+) to "([^"]+)"$"#)]
#[when(regex = r#"^somebody adds "([^"]+)" = (.+) to "([^"]+)"$"#)]
async fn somebody_adds(world: &mut LabWorld, key: String, value: String, file: String) -> Step {
    bare(world)?;
    let path = conf_dir(world).await?.join(file);
    let text = read(&path)?;
    write(&path, text.replacen('{', &format!("{{\n  \"{key}\": {value},"), 1).as_bytes())
}

/// Removes the file.
#[when(regex = r#"^somebody removes "([^"]+)"$"#)]
async fn somebody_removes(world: &mut LabWorld, file: String) -> Step {
    let path = conf_dir(world).await?.join(file);
    fs::remove_file(&path).map_err(failed(&path))
}

/// Renames the file.
#[when(regex = r#"^somebody renames "([^"]+)" to "([^"]+)"$"#)]
async fn somebody_renames(world: &mut LabWorld, from: String, to: String) -> Step {
    let directory = conf_dir(world).await?;
    fs::rename(directory.join(&from), directory.join(to)).map_err(failed(&directory.join(&from)))
}

/// Fights: renames it again after each heal.
#[when(regex = r#"^somebody renames "([^"]+)" to "([^"]+)" (\d+) times, as soon as it is there$"#)]
async fn renames_again(world: &mut LabWorld, from: String, to: String, times: u32) -> Step {
    let directory = conf_dir(world).await?;
    let (from, to) = (directory.join(from), directory.join(to));
    for _ in 0..times {
        eventually(SOON, async || fs::rename(&from, &to).map_err(|error| Stop::wrong(error.to_string())))
            .await?;
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
    write(&conf_dir(world).await?.join(file), &text)
}

/// Truncates and rewrites the file as it was before the deployment.
#[when(regex = r#"^somebody restores "([^"]+)" in place$"#)]
async fn somebody_restores_in_place(world: &mut LabWorld, file: String) -> Step {
    let text = before(world, &file)?;
    let path = conf_dir(world).await?.join(file);
    fs::write(&path, text).map_err(failed(&path))
}

/// Fights: restores it again after each heal.
#[when(regex = r#"^somebody restores "([^"]+)" (\d+) times, as soon as it is changed$"#)]
async fn fights(world: &mut LabWorld, file: String, times: u32) -> Step {
    let text = before(world, &file)?;
    let path = conf_dir(world).await?.join(file);
    for _ in 0..times {
        eventually(SOON, async || match read(&path)?.contains(PLUGIN) {
            true => Ok(()),
            false => Err(Stop::wrong("nobody changed it")),
        })
        .await?;
        write(&path, &text)?;
    }
    Ok(())
}

/// Recreates it with its former files.
#[when("the CNI directory is deleted and made again")]
async fn deleted_and_made(world: &mut LabWorld) -> Step {
    let directory = conf_dir(world).await?;
    fs::remove_dir_all(&directory).map_err(failed(&directory))?;
    fs::create_dir(&directory).map_err(failed(&directory))?;
    world.agent.before.iter().try_for_each(|(file, text)| write(&directory.join(file), text))
}

fn is_configuration(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|kind| kind == "conf" || kind == "conflist")
}

/// Records every change in order.
#[given("the CNI directory is watched")]
async fn watched(world: &mut LabWorld) -> Step {
    bare(world)?;
    let directory = conf_dir(world).await?;
    let events = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).map_err(Stop::harness)?;
    let what = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_MOVE | AddWatchFlags::IN_DELETE;
    events.add_watch(&directory, what).map_err(Stop::harness)?;
    let files = fs::read_dir(&directory).map_err(failed(&directory))?.flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    world.watched = Some(Watched { events, before: names.filter(|name| is_configuration(name)).collect() });
    Ok(())
}

/// No recorded change left the directory without a network or with a partial file.
#[then("at every moment it held a whole network")]
fn always_whole(world: &mut LabWorld) -> Step {
    let watched = world.watched.as_ref().ok_or_else(|| Stop::harness("the directory is not watched"))?;
    let mut there = watched.before.clone();
    while let Ok(events) = watched.events.read_events() {
        for event in events {
            let name = event.name.unwrap_or_default().to_string_lossy().into_owned();
            if !is_configuration(&name) {
                continue;
            }
            if event.mask.contains(AddWatchFlags::IN_MODIFY) {
                return Err(Stop::wrong(format!(
                    "{name} was written in place: a runtime may have read a part of it"
                )));
            }
            if event.mask.contains(AddWatchFlags::IN_MOVED_TO) {
                there.insert(name);
            } else {
                there.remove(&name);
                if there.is_empty() {
                    return Err(Stop::wrong(format!(
                        "once {name} was gone there was no configuration at all"
                    )));
                }
            }
        }
    }
    Ok(())
}

#[then(regex = r#"^the configuration "([^"]+)" is not there$"#)]
async fn not_there(world: &mut LabWorld, file: String) -> Step {
    let path = conf_dir(world).await?.join(file);
    eventually(SOON, async || match path.exists() {
        true => Err(Stop::wrong(format!("{} is there", path.display()))),
        false => Ok(()),
    })
    .await
}

/// Waits for a text in the file.
#[then(regex = r#"^the configuration "([^"]+)" contains "(.+)"$"#)]
async fn contains(world: &mut LabWorld, file: String, text: String) -> Step {
    let path = conf_dir(world).await?.join(file);
    let text = text.replace('\'', "\"");
    eventually(SOON, async || match read(&path)? {
        found if found.contains(&text) => Ok(()),
        found => Err(Stop::wrong(format!("it is {found}"))),
    })
    .await
}

/// Waits for an octal mode.
#[then(regex = r#"^the configuration "([^"]+)" has the mode ([0-7]+)$"#)]
async fn has_mode(world: &mut LabWorld, file: String, wanted: String) -> Step {
    let path = conf_dir(world).await?.join(file);
    eventually(SOON, async || {
        let found = fs::metadata(&path).map_err(|error| Stop::wrong(error.to_string()))?;
        let mode = format!("{:o}", found.permissions().mode() & 0o7777);
        if mode == wanted { Ok(()) } else { Err(Stop::wrong(format!("it has {mode}"))) }
    })
    .await
}

/// Reads any path of the node.
#[then(regex = r#"^"(/[^"]+)" of the node contains "(.+)"$"#)]
async fn of_the_node(world: &mut LabWorld, path: String, text: String) -> Step {
    let path = world.cluster().await?.embedded()?.host_path(Path::new(&path))?;
    let (found, text) = (read(&path)?, text.replace('\'', "\""));
    if found.contains(&text) { Ok(()) } else { Err(Stop::wrong(format!("it is {found}"))) }
}

#[then(regex = r#"^"(/[^"]+)" of the node is not there$"#)]
async fn not_on_the_node(world: &mut LabWorld, path: String) -> Step {
    let path = world.cluster().await?.embedded()?.host_path(Path::new(&path))?;
    if path.exists() { Err(Stop::wrong(format!("{} is there", path.display()))) } else { Ok(()) }
}

/// In no line so far.
#[then(regex = r#"^the node agent never said "(.+)"$"#)]
async fn never_said(world: &mut LabWorld, fragment: String) -> Step {
    let pod = agent(world).await?;
    let workload = world.cluster().await?.starting(&pod.namespace, &pod.name).await?;
    match workload.logs().into_iter().find(|line| line.contains(&fragment)) {
        Some(line) => Err(Stop::wrong(line)),
        None => Ok(()),
    }
}
