// SPDX-License-Identifier: Apache-2.0
//! Crash sweep: an ADD is killed at each of its system calls, and what it leaves is compared with the old rules and with the new ones.

use cluster::{CniCall, Kernel, Wanted};
use cucumber::then;
use serde_json::Value;

use super::backend::BACK_END;
use super::damage::wanted;
use super::rules::{legacy, rule_text};
use crate::binaries::PLUGIN;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect_eq};

/// Far more system calls than an ADD makes in the pod's namespace.
const MOST_CALLS: u32 = 500;

/// Far fewer than any makes that changes rules.
const FEWEST: u32 = 10;

/// Exit code of the tracer for a program that SIGKILL ended.
const KILLED: i32 = 128 + 9;
/// Beginning of the tracer's own errors.
const OF_TRACER: &str = "workload: ";

/// End of a program that was to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Killed,
    Done,
}

impl Ended {
    /// By the tracer's exit code, `None` if a signal ended the tracer or nobody knows it; `printed` are the last lines.
    ///
    /// # Errors
    /// The program failed by itself, or the tracer did.
    pub(super) fn of(exit: Option<i32>, printed: &str) -> Result<Self, Stop> {
        match exit {
            Some(0) => Ok(Self::Done),
            Some(KILLED) => Ok(Self::Killed),
            Some(code) if !printed.lines().any(|line| line.starts_with(OF_TRACER)) => {
                Err(Stop::wrong(format!("it was not killed, and ended with exit code {code}: {printed}")))
            }
            other => Err(Stop::harness(format!("its tracer ended with exit code {other:?}: {printed}"))),
        }
    }
}

/// Kills ADDs of the pod, one after the other, each at a later system call, until one lives. Each begins with the old rules, and must
/// leave exactly those or exactly the wanted ones.
#[then(
    regex = r"^an ADD with (nft-compat|nft) that is killed at any system call leaves the old rules or the new ones$"
)]
async fn killed(world: &mut LabWorld, name: String) -> Step {
    let pod = world.it.clone();
    world.run_pod(&pod).await?;
    let tier = world.cluster().await?;
    let first = tier.node()?.last_add(PLUGIN, &pod).await?;
    let mut call = first.clone();
    let mut conf: Value = serde_json::from_slice(&call.stdin).map_err(Stop::harness)?;
    conf[BACK_END] = name.as_str().into();
    call.stdin = conf.to_string().into_bytes();
    let (old, new) = (wanted_as(world, &first).await?, wanted_as(world, &call).await?);
    for number in 1..MOST_CALLS {
        expect_eq("what differs from the old rules", &differences(world, &old).await?, &Vec::new())?;
        let kernel = Kernel { kill_at: Some(number), ..Kernel::default() };
        let answer = tier.node()?.call_plugin_on(call.clone(), &kernel).await?;
        let ended = Ended::of(answer.exit, &format!("{}{}", answer.stderr, answer.stdout))?;
        let missing = differences(world, &new).await?;
        if ended == Ended::Done {
            expect_eq("what differs from the new rules at the end", &missing, &Vec::new())?;
            let kills = number - 1;
            world.notes.push(format!("killed before each of {kills} system calls"));
            let few = || format!("it was killed {kills} times alone, at least {FEWEST} are expected");
            return if kills >= FEWEST { Ok(()) } else { Err(Stop::harness(few())) };
        }
        if missing.is_empty() {
            tier.node()?.call_plugin(first.clone()).await?;
        } else if !differences(world, &old).await?.is_empty() {
            let text = missing.join("; ");
            return Err(Stop::wrong(format!(
                "killed before system call {number} it left neither the old rules nor the new ones: {text}"
            )));
        }
    }
    Err(Stop::harness("an ADD never ended"))
}

/// Rules of the pod after a call of the plugin with this configuration.
async fn wanted_as(world: &mut LabWorld, call: &CniCall) -> Result<Wanted, Stop> {
    let conf: Value = serde_json::from_slice(&call.stdin).map_err(Stop::harness)?;
    wanted(world, conf[BACK_END] == "nft").await
}

/// Differences of the pod's namespace from exactly these rules.
async fn differences(world: &mut LabWorld, wanted: &Wanted) -> Result<Vec<String>, Stop> {
    let name = world.it.clone();
    let workload = world.workload(&name).await?;
    let mut all = workload.differences(wanted).await?;
    let network = workload.network().await?;
    all.extend(legacy(&network).map(|rule| format!("{} is not expected", rule_text(rule))));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sigkill_kills_and_a_program_that_fails_by_itself_is_wrong() {
        assert_eq!(Ended::of(Some(0), ""), Ok(Ended::Done));
        assert_eq!(Ended::of(Some(137), ""), Ok(Ended::Killed));
        for code in [1, 101, 128 + 6, 128 + 11] {
            assert!(
                matches!(Ended::of(Some(code), "no room"), Err(Stop::Wrong(why)) if why.contains("no room"))
            );
        }
        assert!(matches!(Ended::of(Some(1), "a\nworkload: cannot start"), Err(Stop::Harness(_))));
        assert!(matches!(Ended::of(None, "killed: too slow"), Err(Stop::Harness(_))));
    }
}
