// SPDX-License-Identifier: Apache-2.0
//! Requests of the plugin to the agent: one at a time, 110 at a time, and 110 ADDs of the real plugin, which must not reach the API server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use benches::report::Effort;
use benches::{burst, contender};
use protocol::agent::{
    PodKey, Reply, Request, RequestKind, Response, SOCKET, VERSION, decode_line, encode_line,
};
use protocol::pod::PodFacts;
use serde_json::json;

use crate::node::{Agent, Binaries, Node, PATIENCE, until};
use crate::{Figures, Goal, pods};

const ANSWER: Goal = Goal { most: 5.0, unit: "ms" };
/// Pods of a full node.
const PODS: usize = 110;
/// Processes that ask for all of them at once: one may have 64 connections.
const CLIENTS: usize = 2;
/// Rounds: a process may have 512 connections in a row.
const ROUNDS: usize = 8;

fn ask(socket: &Path, key: &PodKey) -> Result<Vec<u8>> {
    answer(connect(socket, &question(key)?)?)
}

/// Request line for a pod.
fn question(key: &PodKey) -> Result<Vec<u8>> {
    Ok(encode_line(&Request { version: VERSION, kind: RequestKind::Pod(key.clone()) })?)
}

fn connect(socket: &Path, question: &[u8]) -> Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(question)?;
    Ok(stream)
}

/// The line that is answered. What it costs to read is the plugin's, so it is not part of any time here.
fn answer(stream: UnixStream) -> Result<Vec<u8>> {
    let mut line = Vec::new();
    BufReader::new(stream).read_until(b'\n', &mut line)?;
    Ok(line)
}

fn pod(line: &[u8]) -> Result<PodFacts> {
    match decode_line::<Reply>(line)?.response {
        Response::Found { pod } => Ok(*pod),
        other => bail!("the agent does not know the pod: {other:?}"),
    }
}

/// The agent's answer on a pod.
pub(crate) fn facts(node: &Node, key: &PodKey) -> Result<PodFacts> {
    pod(&ask(&node.run_dir().join(SOCKET), key)?).with_context(|| format!("ask for {}", key.name))
}

/// Requests in a row that one process is served.
const ROW: usize = 400;

/// Waits until the agent knows its pods, and makes sure that it does: it answers for some of them without asking anybody.
pub(crate) fn known(node: &Node, keys: &[PodKey]) -> Result<()> {
    node.watched()?;
    // The watch streams its initial events in the order of keys. Whoever is asked for too early is fetched, and no sign of the others.
    let mut unasked = keys.iter().rev();
    until(PATIENCE, || {
        let before = node.gets();
        facts(node, unasked.next().context("ask for pods until one is known")?)?;
        Ok((node.gets() == before).then_some(()))
    })
    .context("wait until the agent knows its pods")?;
    let before = node.gets();
    for key in keys.iter().step_by(keys.len().div_ceil(100)) {
        facts(node, key)?;
    }
    let asked = node.gets() - before;
    ensure!(asked == 0, "the agent had to ask for {asked} pods that it should know");
    Ok(())
}

/// A node with 110 pods, and an agent that has listed all of them.
fn started(binaries: &Binaries) -> Result<(Node, Vec<PodKey>, Agent)> {
    let node = Node::create(binaries)?;
    let keys = pods::fill(&node, PODS)?;
    let mut agent = node.start(&binaries.agent, &[])?;
    agent.ready()?;
    known(&node, &keys)?;
    Ok((node, keys, agent))
}

/// Requests a pod `count` times; returns milliseconds of each.
fn series(socket: &Path, key: &PodKey, count: usize) -> Result<Vec<f64>> {
    let one = |_| {
        let start = Instant::now();
        let line = ask(socket, key)?;
        let took = start.elapsed().as_secs_f64() * 1e3;
        pod(&line)?;
        Ok(took)
    };
    (0..count).map(one).collect()
}

pub(crate) fn measure(effort: Effort, binaries: &Binaries, figures: &mut Figures) -> Result<()> {
    let (node, keys, _agent) = started(binaries)?;
    let socket = node.run_dir().join(SOCKET);
    let alone = series(&socket, &keys[0], effort.pick(50, ROW))?;
    figures.samples("socket request, alone", alone, 0.99, ANSWER);
    let rounds = (0..effort.pick(1, 7)).map(|_| crowd(&socket, &keys)).collect::<Result<Vec<_>>>()?;
    figures.samples("socket request, 110 at a time", rounds.concat(), 0.99, ANSWER);
    Ok(())
}

/// Asks for all pods at once, [`ROUNDS`] times, from [`CLIENTS`] processes that are there before; milliseconds of each.
fn crowd(socket: &Path, keys: &[PodKey]) -> Result<Vec<f64>> {
    let own = std::env::current_exe()?;
    let mut clients = Vec::new();
    for part in keys.chunks(keys.len().div_ceil(CLIENTS)) {
        let mut client = Command::new(&own);
        client.arg("--ask").arg(socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = client.spawn()?;
        let mut stdin = child.stdin.take().context("no stdin")?;
        writeln!(stdin, "{}", serde_json::to_string(part)?)?;
        let mut stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        stdout.read_line(&mut String::new())?;
        clients.push((child, stdin, stdout));
    }
    for _ in 0..=ROUNDS {
        for (_, stdin, _) in &mut clients {
            writeln!(stdin)?;
        }
        for (_, _, stdout) in &mut clients {
            stdout.read_line(&mut String::new())?;
        }
    }
    let mut all = Vec::new();
    for (mut child, stdin, mut stdout) in clients {
        drop(stdin);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        ensure!(child.wait()?.success(), "a client failed");
        // In the first round a client meets its own code for the first time.
        all.extend(serde_json::from_str::<Vec<Vec<f64>>>(&line)?.into_iter().skip(1).flatten());
    }
    Ok(all)
}

/// Client of [`crowd`]: reads keys, reports ready, requests all of them on each command, and finally prints the durations. Answers are read
/// in the order of the requests, so no duration is too short; they are verified in the end, when nobody waits for a core.
pub(crate) fn client(socket: &Path) -> Result<()> {
    let mut lines = std::io::stdin().lines();
    let keys: Vec<PodKey> = serde_json::from_str(&lines.next().context("the bench is gone")??)?;
    let questions = keys.iter().map(question).collect::<Result<Vec<_>>>()?;
    println!("ready");
    let mut rounds = Vec::new();
    for told in lines {
        told?;
        let asked = questions
            .iter()
            .map(|question| Ok((Instant::now(), connect(socket, question)?)))
            .collect::<Result<Vec<_>>>()?;
        let answered = asked
            .into_iter()
            .map(|(start, stream)| answer(stream).map(|line| (line, start.elapsed())))
            .collect::<Result<Vec<_>>>()?;
        rounds.push(answered);
        println!("answered");
    }
    let took = |(line, took): &(Vec<u8>, Duration)| pod(line).map(|_| took.as_secs_f64() * 1e3);
    let all =
        rounds.iter().map(|round| round.iter().map(took).collect()).collect::<Result<Vec<Vec<f64>>>>()?;
    println!("{}", serde_json::to_string(&all)?);
    Ok(())
}

/// Concurrent ADDs of the real plugin.
pub(crate) fn adds(binaries: &Binaries, figures: &mut Figures) -> Result<()> {
    let (node, keys, _agent) = started(binaries)?;
    let key = &keys[0];
    let netconf = json!({"cniVersion": "1.0.0", "name": "k8s", "type": "istio-cni", "plugin_log_level": "error", "cni_agent_run_dir": node.run_dir(),
        "pod_namespace": "istio-system",
        "prevResult": {"cniVersion": "1.0.0", "interfaces": [{"name": "eth0"}], "ips": [{"address": "10.9.0.2/24", "interface": 0}]}});
    let mut plugin = contender::plugin("ADD", &binaries.plugin, "ADD", (&key.namespace, &key.name), &netconf);
    for (_, value) in plugin.processes.iter_mut().flat_map(|process| &mut process.env) {
        *value = value.replace("K8S_POD_UID=u", &format!("K8S_POD_UID={}", key.uid));
    }
    let before = node.gets();
    let took = burst::burst(&plugin, PODS, PODS)?;
    let caused = (node.gets() - before) as f64;
    figures.one("GETs of pods that 110 ADDs at once cause", caused, Goal { most: 0.0, unit: "requests" });
    figures.note("110 ADDs at once, whole", &format!("{:.0} ms", took.as_secs_f64() * 1e3));
    Ok(())
}
