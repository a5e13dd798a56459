// SPDX-License-Identifier: Apache-2.0
//! What the plugin asks the agent: one request at a time, 110 at a time, and 110 ADDs of the real plugin, which must not reach the API server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use benches::{burst, contender};
use protocol::agent::{
    PodKey, Reply, Request, RequestKind, Response, SOCKET, VERSION, decode_line, encode_line,
};
use protocol::pod::PodFacts;
use serde_json::json;

use crate::node::{Agent, Binaries, Node};
use crate::{Effort, Figures, Goal, pods};

const ANSWER: Goal = Goal { most: 5.0, unit: "ms" };
/// As many as a kubelet's pods.
const PODS: usize = 110;

fn ask(socket: &Path, key: &PodKey) -> Result<Response> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(&encode_line(&Request { version: VERSION, kind: RequestKind::Pod(key.clone()) })?)?;
    let mut line = Vec::new();
    BufReader::new(stream).read_until(b'\n', &mut line)?;
    Ok(decode_line::<Reply>(&line)?.response)
}

/// What the agent says of a pod.
pub(crate) fn facts(node: &Node, key: &PodKey) -> Result<PodFacts> {
    match ask(&node.run_dir().join(SOCKET), key)? {
        Response::Found { pod } => Ok(*pod),
        other => bail!("the agent does not know {}: {other:?}", key.name),
    }
}

/// So many questions in a row are answered to one process.
const ROW: usize = 400;

/// Waits until the agent knows its pods, and makes sure that it does: it answers for some of them without asking anybody.
pub(crate) fn known(node: &Node, keys: &[PodKey]) -> Result<()> {
    node.watched()?;
    let before = node.gets();
    for key in keys.iter().step_by(keys.len().div_ceil(100)) {
        facts(node, key)?;
    }
    let asked = node.gets() - before;
    ensure!(asked == 0, "the agent had to ask for {asked} pods that it should know");
    Ok(())
}

/// A node with 110 pods, and an agent that knows all of them.
fn started(binaries: &Binaries) -> Result<(Node, Vec<PodKey>, Agent)> {
    let node = Node::create(binaries)?;
    let keys = pods::fill(&node, PODS)?;
    let mut agent = node.start(&binaries.agent, &[])?;
    agent.ready()?;
    known(&node, &keys)?;
    Ok((node, keys, agent))
}

/// Asks for a pod `count` times; milliseconds of each.
fn series(socket: &Path, key: &PodKey, count: usize) -> Result<Vec<f64>> {
    let one = |_| {
        let start = Instant::now();
        let response = ask(socket, key)?;
        let took = start.elapsed().as_secs_f64() * 1e3;
        ensure!(matches!(response, Response::Found { .. }), "{} is not known any more", key.name);
        Ok(took)
    };
    (0..count).map(one).collect()
}

pub(crate) fn measure(effort: Effort, binaries: &Binaries, figures: &mut Figures) -> Result<()> {
    let (node, keys, _agent) = started(binaries)?;
    let socket = node.run_dir().join(SOCKET);
    let alone = series(&socket, &keys[0], effort.pick(50, ROW))?;
    figures.samples("socket request, alone", alone, 0.99, ANSWER);
    let all_there = Barrier::new(keys.len());
    let together = thread::scope(|scope| {
        let crowd: Vec<_> = keys
            .iter()
            .map(|key| {
                scope.spawn(|| {
                    all_there.wait();
                    series(&socket, key, effort.pick(2, 50))
                })
            })
            .collect();
        let ended = crowd.into_iter().map(|one| one.join().map_err(|_| anyhow!("a thread panicked"))?);
        ended.collect::<Result<Vec<_>>>()
    })?;
    figures.samples("socket request, 110 at a time", together.concat(), 0.99, ANSWER);
    Ok(())
}

/// ADDs of the real plugin, all at once.
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
