// SPDX-License-Identifier: Apache-2.0
//! Exposure of a pod: what got past the rules that it wants, from the first instruction of its first own container on.
//!
//! The pod, or the pods that are made of it, have a sender; a pod outside the mesh, the witness, is where it sends to, what connects to it, and
//! where packets are counted. Zero means that the sender ran, and that a proxy answered what it sent.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cluster::hand::{Capture, Packet};
use cucumber::{given, then};
use k8s_openapi::api::core::v1::Pod as PodObject;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tokio::time::{Instant, timeout_at};

use crate::exposure::{Attempt, COUNTED, DNS, Exposure, NOBODY, Said, any, concerns};
use crate::pod::{Pod, SENDER, Sender};
use crate::steps::wait::{eventually, throughout};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect};

mod told;

/// Interval of a sender.
const EVERY: Duration = Duration::from_millis(5);
/// Packets that are told one by one: of many senders, for longer than any scenario lasts.
const TOLD: u32 = 1_000_000;
/// Name and namespace of the pod that packets are counted at.
const WITNESS: (&str, &str) = ("witness", "default");
/// Deadline of what decides.
const SOON: Duration = Duration::from_secs(60);
/// Window after it, some forty packets.
const AFTER: Duration = Duration::from_millis(200);
/// Answers of a proxy after which a pod counts as redirected.
const ENOUGH: u64 = 16;

/// A measure that goes on.
pub struct Measure {
    /// Name of the pod, or of the template.
    name: String,
    every: Duration,
    /// Begin, or the last reboot.
    since: Timestamp,
    /// None once it was stopped.
    capture: Option<Capture>,
    seen: Vec<Packet>,
}

impl Measure {
    /// All packets until now, and no later ones. What was seen stays, also where some were lost.
    async fn stop(&mut self) -> Step {
        let Some(capture) = self.capture.take() else { return Ok(()) };
        let (rest, counts) = capture.stop().await?;
        self.seen.extend(rest);
        match counts.lost + u64::from(self.seen.len() >= TOLD as usize) {
            0 => Ok(()),
            lost => Err(Stop::harness(format!("{lost} packets of the witness were not seen"))),
        }
    }

    /// One more packet, if there is one before the deadline.
    async fn next(&mut self, deadline: Instant) -> Result<bool, Stop> {
        let Some(capture) = &mut self.capture else { return Ok(false) };
        let Ok(packet) = timeout_at(deadline, capture.next()).await else { return Ok(false) };
        self.seen.push(packet?);
        Ok(true)
    }
}

/// From the first instruction of its first own container on, every 5 ms unless the step says so; of all pods that are made of it. Questions to
/// resolvers count where the pod wants them captured, connections to the pod where the step says so, and nothing else if they are alone.
#[given(
    regex = r#"^exposure of pod "([^"]+)" is measured(?: every (\d+) ms)?(?:, inbound (as well|alone))?$"#
)]
async fn measured(world: &mut LabWorld, name: String, every: String, inbound: String) -> Step {
    let (name, every) = (name.as_str(), every.parse().map_or(EVERY, Duration::from_millis));
    let is_outbound = inbound != "alone";
    let mut witness = Pod::plain(WITNESS.0, WITNESS.1);
    witness.ports.clear();
    witness.is_caller = !inbound.is_empty();
    witness.families = world.pod(name)?.families;
    // What happens to the first node is none of its business.
    witness.node = world.cluster().await?.nodes().last().map(|node| node.name().to_owned());
    world.pods.insert(WITNESS.0.to_owned(), witness);
    world.run_pod(WITNESS.0).await?;
    let workload = world.workload(WITNESS.0).await?;
    let network = workload.network_namespace()?;
    let capture = workload.hand().await?.capture(network, TOLD, Some(COUNTED)).await?;
    let witnesses = workload.addresses();
    let pod = world.pod(name)?;
    let to = if is_outbound { whole(pod, Attempt::Connection, &witnesses)? } else { Vec::new() };
    let to = to.into_iter().map(|to| SocketAddr::new(to, NOBODY)).collect();
    let ask = concerned(pod, Attempt::Question, &witnesses)?;
    let ask = ask.into_iter().map(|to| SocketAddr::new(to, DNS)).collect();
    let callers = if inbound.is_empty() { Vec::new() } else { whole(pod, Attempt::Call, &witnesses)? };
    pod.sender = Some(Sender { to, ask, callers, every });
    let (name, since) = (name.to_owned(), Timestamp::now());
    world.exposure = Some(Measure { name, every, since, capture: Some(capture), seen: Vec::new() });
    Ok(())
}

/// Those of the witness' addresses that the rules of the pod let no such attempt to or from.
fn concerned(pod: &Pod, attempt: Attempt, witnesses: &[IpAddr]) -> Result<Vec<IpAddr>, Stop> {
    let mut concerned = Vec::new();
    for family in pod.families.list() {
        let own = any(family);
        let Some(witness) = witnesses.iter().find(|one| one.is_ipv4() == own.is_ipv4()) else { continue };
        let (from, to) = if attempt == Attempt::Call { (*witness, own) } else { (own, *witness) };
        if concerns(pod, attempt, from, to).map_err(Stop::harness)? {
            concerned.push(*witness);
        }
    }
    Ok(concerned)
}

/// As [`concerned`], of each family that the pod has.
fn whole(pod: &Pod, attempt: Attempt, witnesses: &[IpAddr]) -> Result<Vec<IpAddr>, Stop> {
    let concerned = concerned(pod, attempt, witnesses)?;
    match concerned.len() < pod.families.list().len() {
        true => Err(Stop::harness(format!("the rules of {:?} let this through: {attempt:?}", pod.name))),
        false => Ok(concerned),
    }
}

/// The node reboots: what is asked about readiness is asked of what is to come.
pub(super) fn begin_anew(world: &mut LabWorld) {
    if let Some(measure) = &mut world.exposure {
        measure.since = Timestamp::now();
    }
}

/// The measure of a pod.
fn of<'a>(world: &'a mut LabWorld, name: &str) -> Result<&'a mut Measure, Stop> {
    let measure = world.exposure.as_mut().filter(|measure| measure.name == name);
    measure.ok_or_else(|| Stop::harness(format!("nobody measures the exposure of {name:?}")))
}

/// What got past until now.
fn judged(world: &mut LabWorld, name: &str) -> Result<Exposure, Stop> {
    by(world, name, Exposure::of)
}

/// The same by one of the ways to judge it.
fn by(
    world: &mut LabWorld,
    name: &str,
    judge: impl Fn(&[Packet], &Pod, Duration) -> anyhow::Result<Exposure>,
) -> Result<Exposure, Stop> {
    let pod = world.pod(name)?.clone();
    let measure = of(world, name)?;
    judge(&measure.seen, &pod, measure.every).map_err(Stop::harness)
}

/// The pod, or those that were made of it, as far as they are there to stay.
async fn living(world: &mut LabWorld, name: &str) -> Result<Vec<PodObject>, Stop> {
    let namespace = world.pod(name)?.namespace.clone();
    let pods: Api<PodObject> = Api::namespaced(world.cluster().await?.client(), &namespace);
    let all = pods.list(&ListParams::default()).await.map_err(Stop::harness)?.items.into_iter();
    let stay = all.filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(stay.filter(|pod| is_of(pod.name_any().as_str(), name)).collect())
}

/// True for a pod's own name, or that of one that a controller made of it.
fn is_of(pod: &str, name: &str) -> bool {
    pod.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Last words of the senders of a pod or a template, by pod.
pub(crate) async fn said(world: &mut LabWorld, name: &str) -> Result<Vec<(String, Said)>, Stop> {
    let namespace = world.pod(name)?.namespace.clone();
    let begin = format!("{namespace}/");
    let mut all: Vec<(String, Said)> = Vec::new();
    for line in world.cluster().await?.logs().await? {
        let Some((pod, words)) = line.strip_prefix(&begin).and_then(|line| line.split_once(' ')) else {
            continue;
        };
        let words = words.strip_prefix(SENDER).and_then(|words| words.strip_prefix(": "));
        let Some(said) = words.and_then(Said::read).filter(|_| is_of(pod, name)) else { continue };
        match all.iter_mut().find(|(known, _)| known == pod) {
            Some((_, last)) => *last = said,
            None => all.push((pod.to_owned(), said)),
        }
    }
    Ok(all)
}

/// Holds once a proxy has answered the sender of each pod that is there.
async fn redirected(world: &mut LabWorld, name: &str) -> Step {
    let (living, said) = (living(world, name).await?, said(world, name).await?);
    let answered = |pod: &String| said.iter().any(|(one, said)| one == pod && said.answered >= ENOUGH);
    let Some(pod) = living.iter().map(ResourceExt::name_any).find(|pod| !answered(pod)) else {
        return if living.is_empty() { Err(Stop::harness("no such pod is there")) } else { Ok(()) };
    };
    match said.iter().find(|(one, _)| *one == pod) {
        // A sender that was never started is no finding about what got past.
        None => Err(Stop::harness(format!("the sender of {pod} has sent nothing"))),
        Some((_, said)) => Err(Stop::wrong(format!("no proxy answers what {pod} sends: {said:?}"))),
    }
}

/// Waits until a proxy answers what each of its pods sends, and answers again; until then, and for a while after it, nothing got past.
#[then(regex = r#"^exposure of pod "([^"]+)" was 0$"#)]
async fn zero(world: &mut LabWorld, name: String) -> Step {
    eventually(world, SOON, async |world| {
        while of(world, &name)?.next(Instant::now()).await? {}
        match judged(world, &name)?.packets {
            0 => redirected(world, &name).await,
            // That is decided.
            _ => Ok(()),
        }
    })
    .await?;
    // A pod that ran before has been answered long ago: what was done to it last has to show.
    answered_again(world, &name).await?;
    throughout(world, AFTER, async |world| {
        while of(world, &name)?.next(Instant::now()).await? {}
        let exposure = judged(world, &name)?;
        expect(exposure.packets == 0, || format!("it was {exposure:?}"))
    })
    .await?;
    let all_seen = of(world, &name)?.stop().await;
    let exposure = judged(world, &name)?;
    if exposure.packets == 0 {
        all_seen?;
    }
    let sent: u64 = said(world, &name).await?.iter().map(|(_, said)| said.sent).sum();
    world.notes.push(format!("exposure of {name} was {} of at least {sent} packets", exposure.packets));
    expect(exposure.packets == 0, || format!("it was {exposure:?}"))
}

/// Waits until a proxy has answered each of its pods that run since then.
async fn answered_again(world: &mut LabWorld, name: &str) -> Step {
    let before = said(world, name).await?;
    eventually(world, SOON, async |world| {
        while of(world, name)?.next(Instant::now()).await? {}
        if judged(world, name)?.packets > 0 {
            return Ok(());
        }
        let (living, now) = (living(world, name).await?, said(world, name).await?);
        let answered = |all: &[(String, Said)], pod: &str| {
            all.iter().find(|(one, _)| one == pod).map_or(0, |(_, said)| said.answered)
        };
        let running = living.iter().filter(|pod| runs(pod)).map(ResourceExt::name_any);
        let silent: Vec<_> = running.filter(|pod| answered(&now, pod) <= answered(&before, pod)).collect();
        expect(silent.is_empty(), || format!("no proxy answers any more what {silent:?} send: {now:?}"))
    })
    .await
}

fn runs(pod: &PodObject) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

/// Waits for the first packet that gets past.
#[then(regex = r#"^exposure of pod "([^"]+)" was above 0$"#)]
async fn above_zero(world: &mut LabWorld, name: String) -> Step {
    let deadline = Instant::now() + SOON * world.cluster().await?.patience();
    while judged(world, &name)?.packets == 0 {
        if !of(world, &name)?.next(deadline).await? {
            let sent = said(world, &name).await?;
            return Err(match sent.is_empty() {
                true => Stop::harness("its sender has sent nothing"),
                false => Stop::wrong(format!("nothing got past of what it sent: {sent:?}")),
            });
        }
    }
    Ok(())
}

/// It was kept from its first own instruction, so there was nothing to get past. Not the same as an exposure of 0.
#[then(regex = r#"^nothing of pod "([^"]+)" has run, and nothing got past$"#)]
async fn never_ran(world: &mut LabWorld, name: String) -> Step {
    of(world, &name)?.stop().await?;
    let (sent, exposure) = (said(world, &name).await?, judged(world, &name)?);
    expect(sent.is_empty() && exposure.packets == 0, || {
        format!("it sent {sent:?}, and exposure was {exposure:?}")
    })
}
