// SPDX-License-Identifier: Apache-2.0
//! Connections that stay open: those of an application's pool outlive a change of the rules.

use std::time::Duration;

use cluster::{Answer, Traffic, Transport};
use cucumber::{given, then};
use redirect::ruleset::Family;

use super::{APP, address};
use crate::steps::wait::{deadline_of, within};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Deadline of the end of a connection, and of its next answers.
const SOON: Duration = Duration::from_secs(10);
/// Answers of a connection that goes on: the first may have been on its way.
const ANSWERS: usize = 3;

/// It is open, and answered directly, before the step ends; from then on it is used again and again.
#[given(regex = r#"^"([^"]+)" keeps a connection to "([^"]+)" port (\d+) open( as its proxy)?$"#)]
async fn keeps(world: &mut LabWorld, from: String, to: String, port: u16, sender: String) -> Step {
    world.run_pod(&from).await?;
    world.run_pod(&to).await?;
    let destination = address(world, &to, Family::V4).await?;
    let (uid, gid) = if sender.is_empty() { APP } else { world.pod(&from)?.proxy_process() };
    let workload = world.workload(&from).await?;
    let (uid, gid) = workload.owner_on_node((uid, gid));
    let traffic = Traffic { transport: Transport::Tcp, destination, port, uid, gid, source_port: 0 };
    let (network, hand) = (workload.network_namespace()?, workload.hand().await?);
    let mut kept = hand.keep(network, traffic, workload.exchange()).await?;
    match kept.next().await? {
        Ok(Answer::App { via, .. }) if via.is_empty() => {}
        other => return Err(Stop::wrong(format!("its first answer is {other:?}"))),
    }
    world.kept.insert((from, sender), kept);
    Ok(())
}

/// Looked at from now on: it is answered again and again, or it is answered no more.
#[then(regex = r#"^the connection of "([^"]+)"( as its proxy)? (ends|goes on)$"#)]
async fn fate(world: &mut LabWorld, from: String, sender: String, ending: String) -> Step {
    let deadline = deadline_of(world, SOON);
    let tier = world.cluster().await?;
    let kept =
        world.kept.get_mut(&(from, sender)).ok_or_else(|| Stop::harness("no such connection is kept"))?;
    if ending == "ends" {
        let end = async {
            loop {
                if kept.next().await?.is_err() {
                    return Ok::<(), Stop>(());
                }
            }
        };
        return within(&**tier, deadline, end, || Stop::wrong("it is answered still")).await?;
    }
    for _ in 0..ANSWERS {
        let late = || Stop::wrong("it is not answered");
        if let Err(why) = within(&**tier, deadline, kept.next(), late).await?? {
            return Err(Stop::wrong(format!("it ended: {why}")));
        }
    }
    Ok(())
}
