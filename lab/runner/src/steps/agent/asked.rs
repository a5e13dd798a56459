// SPDX-License-Identifier: Apache-2.0
//! The agent's socket, asked by others than the plugin of this build.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cucumber::gherkin;
use cucumber::{then, when};
use rustix::fs::Uid;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_thread_res_uid};

use super::paths;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Deadline of an answer.
const LIMIT: Duration = Duration::from_secs(5);

/// Last answer; `None` before the first request.
pub type Answered = Option<String>;

fn exchange(path: &Path, line: &str) -> Result<String, Stop> {
    talk(path, line).map_err(|error| Stop::wrong(error.to_string()))
}

fn talk(path: &Path, line: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(LIMIT))?;
    // A rejected client may be disconnected before it has sent anything.
    match writeln!(stream, "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error),
        _ => {}
    }
    let mut answer = String::new();
    match stream.read_to_string(&mut answer) {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(String::new()),
        read => read.map(|_| answer),
    }
}

/// The kernel tells whom a connection is of by the thread that connects: this one takes on another user, keeps the right to open every
/// file, and ends.
fn as_user(user: u32, path: &Path, line: &str) -> Result<String, Stop> {
    set_thread_res_uid(None, Uid::from_raw(user), None).map_err(Stop::harness)?;
    let sets = CapabilitySets {
        effective: CapabilitySet::DAC_OVERRIDE,
        permitted: CapabilitySet::DAC_OVERRIDE,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).map_err(Stop::harness)?;
    exchange(path, line)
}

async fn socket(world: &mut LabWorld) -> Result<PathBuf, Stop> {
    Ok(paths(world).await?.run_dir.join(protocol::agent::SOCKET))
}

async fn question(world: &mut LabWorld, step: &gherkin::Step) -> Result<String, Stop> {
    let text = step.docstring.as_deref().ok_or_else(|| Stop::harness("no text is below the step"))?;
    let (name, namespace) = (world.it.clone(), world.it()?.namespace.clone());
    let pod = world.cluster().await?.pod(&namespace, &name).await?.unwrap_or_default();
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" ").replace("UID", uid))
}

async fn ask(
    world: &mut LabWorld,
    step: &gherkin::Step,
    how: impl FnOnce(&Path, &str) -> Result<String, Stop> + Send + 'static,
) -> Step {
    let (path, line) = (socket(world).await?, question(world, step).await?);
    let asked = tokio::task::spawn_blocking(move || std::thread::spawn(move || how(&path, &line)).join());
    let answer = asked.await.map_err(Stop::harness)?;
    let answer = answer.map_err(|_| Stop::harness("the thread that asks panicked"))?;
    world.agent.answered = Some(answer?);
    Ok(())
}

/// Sends the line below the step; `UID` in it stands for the UID of the pod that `it` means.
#[when("the agent's socket is asked:")]
async fn asked(world: &mut LabWorld, step: &gherkin::Step) -> Step {
    ask(world, step, exchange).await
}

/// Sends the line as a user that is not root.
#[when(regex = r"^user (\d+), who may open every file, asks the agent's socket:$")]
async fn stranger(world: &mut LabWorld, user: u32, step: &gherkin::Step) -> Step {
    ask(world, step, move |path, line| as_user(user, path, line)).await
}

fn answered(world: &LabWorld) -> Result<&str, Stop> {
    world.agent.answered.as_deref().ok_or_else(|| Stop::harness("nobody asked the socket"))
}

/// The answer contains this text.
#[then(regex = r#"^it answers "(.+)"$"#)]
fn answers(world: &mut LabWorld, fragment: String) -> Step {
    let (answer, fragment) = (answered(world)?, fragment.replace('\'', "\""));
    if answer.contains(&fragment) { Ok(()) } else { Err(Stop::wrong(format!("it answered {answer:?}"))) }
}

/// The connection ends without an answer.
#[then("it does not answer")]
fn silent(world: &mut LabWorld) -> Step {
    match answered(world)? {
        "" => Ok(()),
        answer => Err(Stop::wrong(format!("it answered {answer:?}"))),
    }
}
