// SPDX-License-Identifier: Apache-2.0
//! The agent's socket, asked by others than the plugin of this build.

use cucumber::gherkin;
use cucumber::{then, when};

use crate::steps::files::{files, wrong};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect};

/// Last answer; `None` before the first request.
pub type Answered = Option<String>;

async fn question(world: &mut LabWorld, step: &gherkin::Step) -> Result<String, Stop> {
    let text = step.docstring.as_deref().ok_or_else(|| Stop::harness("no text is below the step"))?;
    let it = world.its_name()?;
    let pod = world.cluster().await?.pod(&it).await?.unwrap_or_default();
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" ").replace("UID", uid))
}

async fn ask(world: &mut LabWorld, step: &gherkin::Step, user: u32) -> Step {
    let (node, line) = (files(world).await?, question(world, step).await?);
    let socket = node.paths.run_dir.join(protocol::agent::SOCKET);
    world.agent.answered = Some(node.hand.ask(&socket, &line, (user, user)).await.map_err(wrong)?);
    Ok(())
}

/// Sends the line below the step; `UID` in it stands for the UID of the pod that `it` means.
#[when("the agent's socket is asked:")]
async fn asked(world: &mut LabWorld, step: &gherkin::Step) -> Step {
    ask(world, step, 0).await
}

/// Sends the line as a user that is not root.
#[when(regex = r"^user (\d+), who may open every file, asks the agent's socket:$")]
async fn stranger(world: &mut LabWorld, user: u32, step: &gherkin::Step) -> Step {
    ask(world, step, user).await
}

fn answered(world: &LabWorld) -> Result<&str, Stop> {
    world.agent.answered.as_deref().ok_or_else(|| Stop::harness("nobody asked the socket"))
}

/// The answer contains this text.
#[then(regex = r#"^it answers "(.+)"$"#)]
fn answers(world: &mut LabWorld, fragment: String) -> Step {
    let (answer, fragment) = (answered(world)?, fragment.replace('\'', "\""));
    expect(answer.contains(&fragment), || format!("it answered {answer:?}"))
}

/// The connection ends without an answer.
#[then("it does not answer")]
fn silent(world: &mut LabWorld) -> Step {
    match answered(world)? {
        "" => Ok(()),
        answer => Err(Stop::wrong(format!("it answered {answer:?}"))),
    }
}
