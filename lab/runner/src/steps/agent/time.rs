// SPDX-License-Identifier: Apache-2.0
//! Time of the agent, by a tracer: its timers of minutes and hours come true within a scenario.

use std::num::NonZeroU32;

use cucumber::given;
use serde_json::{Value, json};

use super::bare;
use crate::binaries::MUTANT;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Program of the agent in its image.
pub(super) const PROGRAM: &str = "/image/install-cni";

/// Clocks and time-outs of the agent and its children; what it asks others for takes as long as ever. x86_64 alone.
#[given(regex = r"^the node agent's time passes (\d+) times as fast$")]
async fn passes(world: &mut LabWorld, times: u32) -> Step {
    bare(world)?;
    // Only the lab's kubelet starts the lab's program in the agent's container.
    world.cluster().await?.kubelet()?;
    world.agent.times = Some(NonZeroU32::new(times).ok_or_else(|| Stop::harness("time cannot stand still"))?);
    Ok(())
}

/// Has the agent's container run it with faster time. The kubelet starts the lab's program, which hands on its environment.
pub fn hasten(container: &mut Value, times: NonZeroU32, mutant: Option<&str>) {
    container["command"] = json!(["workload", "fake-kernel", "--times", times.to_string(), "--", PROGRAM]);
    let mut env = container["env"].as_array().cloned().unwrap_or_default();
    env.extend(mutant.map(|name| json!({ "name": MUTANT, "value": name })));
    container["env"] = json!(env);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_keeps_its_arguments_and_its_environment() {
        let mut container =
            json!({ "command": ["install-cni"], "args": ["--a"], "env": [{ "name": "B", "value": "c" }] });
        hasten(&mut container, NonZeroU32::MIN, Some("defect"));
        assert_eq!(container["command"], json!(["workload", "fake-kernel", "--times", "1", "--", PROGRAM]));
        assert_eq!(container["args"], json!(["--a"]));
        assert_eq!(container["env"].as_array().unwrap().len(), 2);
    }
}
