// SPDX-License-Identifier: Apache-2.0
//! Duration of a pod's set-up: our plugin beside the floor, beside `iptables-nft-restore` where it is installed and beside any other plugin
//! given with `--peer`. All contenders take turns in one run, each time on a fresh namespace.
//!
//! `cargo bench -p benches --bench pod_setup -- [--quick] [--rounds NUMBER] [--check] [--peer PATH] [--plugin PATH]`

#![expect(clippy::print_stdout, reason = "the report is the product")]

use std::cell::RefCell;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use benches::bounds::{Bound, Judged};
use benches::contender::{self, Contender, SetUp};
use benches::meter::{self, Cost};
use benches::peers::{self, ApiServer, Asked};
use benches::pod::PodNamespace;
use benches::rounds::{Rounds, quantile, sorted};
use benches::rules::{self, POD};
use benches::tls::Client;
use benches::{burst, floor};
use clap::Parser;
use criterion::{Criterion, SamplingMode};
use protocol::pod::PodFacts;
use redirect::ruleset::{Family, Ruleset};
use serde_json::{Value, json};

/// The longest permitted lists, all at once.
const WORST: &str = "plugin, worst annotations";

const FLOOR: &str = "floor";
const WITH_AGENT: &str = "plugin, agent up";
const WITH_API: &str = "plugin, API server";
const PEER: &str = "peer, API server";
const RESTORE: &str = "iptables-nft-restore v4+v6";

/// Regression gate of `--check`; benches/README.md has the figures behind the bounds.
const BOUNDS: [Bound; 5] = [
    Bound { contender: WITH_AGENT, other: FLOOR, most: 2.6 },
    Bound { contender: WITH_AGENT, other: RESTORE, most: 0.33 },
    Bound { contender: WITH_API, other: FLOOR, most: 6.5 },
    Bound { contender: WITH_AGENT, other: PEER, most: 1.0 / 55.0 },
    Bound { contender: WITH_API, other: PEER, most: 1.0 / 27.0 },
];

/// Bound on the system calls of an ADD with the agent up.
const MOST_CALLS: usize = 68;

/// Times the set-up of pods.
#[derive(Debug, Parser)]
struct Options {
    /// A few rounds only: proves that the bench runs, its figures are worth nothing.
    #[arg(long)]
    quick: bool,
    /// So many rounds, without criterion.
    #[arg(long)]
    rounds: Option<usize>,
    /// Fails if a ratio of this run is over its bound.
    #[arg(long)]
    check: bool,
    /// Another plugin to compare with, for instance upstream's (`ci/peer`). It asks the API server.
    #[arg(long)]
    peer: Option<PathBuf>,
    /// Our plugin; built if not given.
    #[arg(long)]
    plugin: Option<PathBuf>,
    /// A second build of our plugin, to compare C libraries.
    #[arg(long)]
    other_build: Option<PathBuf>,
    /// What `cargo bench` passes.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let scratch = tempfile::tempdir()?;
    let installed = |name, path: &Path| install(path, &scratch.path().join(name));
    let plugin = installed("istio-cni", &options.plugin.clone().map_or_else(build_plugin, Ok)?)?;
    let other = options.other_build.as_deref().map(|path| installed("other", path)).transpose()?;
    let peer = options.peer.as_deref().map(|path| installed("peer", path)).transpose()?;
    let world = World::create(scratch.path(), plugin)?;

    let mut contenders = world.contenders()?;
    if let Some(other) = &other {
        contenders.push(world.add("plugin, other build", other, &world.with_agent));
        contenders.push(world.add("plugin, other build, API server", other, &world.with_api));
    }
    contenders.extend(peer.as_deref().map(|path| world.add(PEER, path, &world.with_api)));
    let mut boxed: Vec<Box<dyn SetUp>> =
        contenders.into_iter().map(|contender| Box::new(contender) as Box<dyn SetUp>).collect();
    boxed.push(Box::new(Client::new(world.api.address, &world.api.authority)?));
    let rounds = RefCell::new(Rounds::new(boxed));
    match options.rounds.or(options.quick.then_some(3)) {
        Some(count) => (0..count).try_for_each(|_| rounds.borrow_mut().round())?,
        None => sample(&rounds)?,
    }
    println!("\n{}", rounds.borrow().table());
    let calls = world.report_cost()?;
    world.report_burst(if options.quick { 1 } else { 7 })?;
    let judged: Vec<Judged> = BOUNDS.iter().filter_map(|bound| rounds.borrow().judge(*bound)).collect();
    judged.iter().for_each(|judged| println!("{judged}"));
    println!("bound: {WITH_AGENT} makes {calls} system calls, at most {MOST_CALLS}");
    ensure!(!options.check || calls <= MOST_CALLS, "an ADD makes too many system calls");
    ensure!(!options.check || judged.iter().all(Judged::holds), "a bound is exceeded");
    Ok(())
}

/// Lets criterion consume the interleaved samples: statistics and comparison with the last run are its business.
fn sample(rounds: &RefCell<Rounds>) -> Result<()> {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(20))
        .measurement_time(Duration::from_millis(60));
    let mut group = criterion.benchmark_group("pod_setup");
    group.sampling_mode(SamplingMode::Flat);
    let mut failure = None;
    let names = rounds.borrow().names();
    for (index, name) in names.into_iter().enumerate() {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|count| match rounds.borrow_mut().take(index, count) {
                Ok(took) => took,
                Err(error) => {
                    failure.get_or_insert(error);
                    Duration::from_secs(1)
                }
            });
        });
    }
    group.finish();
    failure.map_or(Ok(()), Err)
}

/// The processes that answer, the configurations that point at them, and the binaries.
struct World {
    plugin: PathBuf,
    floor: PathBuf,
    ruleset: Ruleset,
    worst: Ruleset,
    with_agent: Value,
    with_api: Value,
    with_worst: Value,
    agent: Asked,
    api: ApiServer,
}

impl World {
    fn create(scratch: &Path, plugin: PathBuf) -> Result<Self> {
        let pod: PodFacts = serde_json::from_str(POD)?;
        let ruleset = redirect::generate::ruleset(&rules::config(&pod)?)?;
        let worst_pod = rules::worst_pod()?;
        let worst = redirect::generate::ruleset(&rules::config(&worst_pod)?)?;
        let [agent_dir, api_dir, worst_dir] = ["agent", "api", "worst"].map(|name| scratch.join(name));
        for dir in [&agent_dir, &api_dir, &worst_dir] {
            fs::create_dir(dir)?;
        }
        let agent = peers::agent(&agent_dir, &pod)?;
        peers::agent(&worst_dir, &worst_pod)?;
        let api = peers::api(&rules::stored_pod()?)?;
        fs::write(api_dir.join("istio-cni-kubeconfig"), kubeconfig(&api).to_string())?;
        let floor = floor::build(&ruleset, scratch)?;
        Ok(Self {
            plugin,
            floor,
            ruleset,
            worst,
            with_agent: netconf(&agent_dir),
            with_api: netconf(&api_dir),
            with_worst: netconf(&worst_dir),
            agent,
            api,
        })
    }

    fn add(&self, name: &str, binary: &Path, netconf: &Value) -> Contender {
        contender::plugin(name, binary, "ADD", ("shop", "cart"), netconf)
    }

    fn contenders(&self) -> Result<Vec<Contender>> {
        let v4 = redirect::text::restore(&self.ruleset, Family::V4);
        let v6 = redirect::text::restore(&self.ruleset, Family::V6);
        let mut contenders = vec![
            contender::floor(&self.floor),
            self.add(WITH_AGENT, &self.plugin, &self.with_agent),
            self.add(WITH_API, &self.plugin, &self.with_api),
            contender::plugin(
                "plugin, excluded namespace",
                &self.plugin,
                "ADD",
                ("kube-system", "dns"),
                &self.with_agent,
            ),
            contender::plugin("plugin DEL", &self.plugin, "DEL", ("shop", "cart"), &self.with_agent),
            contender::plugin("plugin VERSION", &self.plugin, "VERSION", ("", ""), &self.with_agent),
        ];
        contenders.extend(contender::restore("nft", v4, Some(v6)));
        Self::prove(&contenders[..3], &self.ruleset)?;
        let worst = self.add(WORST, &self.plugin, &self.with_worst);
        Self::prove(std::slice::from_ref(&worst), &self.worst)?;
        contenders.push(worst);
        Ok(contenders)
    }

    /// A contender that leaves other rules than the wanted ones is not worth timing.
    fn prove(contenders: &[Contender], wanted: &Ruleset) -> Result<()> {
        for contender in contenders {
            let pod = PodNamespace::create()?;
            contender.set_up(&pod)?;
            let differences = pod.inside(netfilter::read)?.map(|found| netfilter::compare(&found, wanted))?;
            ensure!(differences.is_empty(), "{} left other rules: {differences:?}", contender.name);
        }
        Ok(())
    }

    /// Prints the cost table and returns the number of system calls of an ADD with the agent up.
    fn report_cost(&self) -> Result<usize> {
        println!("process | system calls | page faults | peak RSS KiB | bytes on disk\n---|---|---|---|---");
        let floor = measure(&contender::floor(&self.floor), &self.floor)?;
        let names: Vec<&str> = floor.calls.iter().map(|number| meter::name(*number)).collect();
        ensure!(names == floor::SYSTEM_CALLS, "the floor does more than it must: {names:?}");
        let asked = (self.agent.count(), self.api.asked.count());
        let cost = measure(&self.add(WITH_AGENT, &self.plugin, &self.with_agent), &self.plugin)?;
        let asked = (self.agent.count() - asked.0, self.api.asked.count() - asked.1);
        measure(&self.add(WITH_API, &self.plugin, &self.with_api), &self.plugin)?;
        measure(&self.add(WORST, &self.plugin, &self.with_worst), &self.plugin)?;
        println!(
            "requests of one ADD with the agent up: {} to the agent, {} to the API server\n",
            asked.0, asked.1
        );
        ensure!(asked.1 == 0, "an ADD with the agent up asked the API server");
        Ok(cost.calls.len())
    }

    fn report_burst(&self, times: usize) -> Result<()> {
        let (floor, plugin) =
            (contender::floor(&self.floor), self.add(WITH_AGENT, &self.plugin, &self.with_agent));
        let mut ratios = Vec::new();
        let mut millis = Vec::new();
        for _ in 0..times {
            let floor = burst::burst(&floor, 110, 16)?.as_secs_f64();
            let plugin = burst::burst(&plugin, 110, 16)?.as_secs_f64();
            ratios.push(plugin / floor);
            millis.push((floor * 1e3, plugin * 1e3));
        }
        let median = |pick: fn(&(f64, f64)) -> f64| quantile(&sorted(millis.iter().map(pick).collect()), 0.5);
        println!(
            "110 pods, 16 at a time ({times} times): floor {:.1} ms, plugin {:.1} ms, ratio {:.2}",
            median(|m| m.0),
            median(|m| m.1),
            quantile(&sorted(ratios), 0.5)
        );
        Ok(())
    }
}

/// Puts a program where it is started from, as the node agent does, byte after byte: in how large pieces the page cache holds what a
/// linker wrote here and there is chance, and shows.
fn install(program: &Path, to: &Path) -> Result<PathBuf> {
    let bytes = fs::read(program).with_context(|| format!("read {}", program.display()))?;
    fs::write(to, bytes)?;
    fs::set_permissions(to, Permissions::from_mode(0o755))?;
    Ok(to.to_owned())
}

/// Prints a row of the cost table for one ADD.
fn measure(contender: &Contender, binary: &Path) -> Result<Cost> {
    let pod = PodNamespace::create()?;
    let process = contender.processes[0].in_namespace(&pod.path());
    let arguments: Vec<&str> = process.arguments.iter().map(String::as_str).collect();
    let cost = meter::measure(&process.binary, &arguments, &process.env, &process.input)?;
    ensure!(cost.exit == 0, "{} failed with {} under ptrace", contender.name, cost.exit);
    let (name, size) = (&contender.name, fs::metadata(binary)?.len());
    println!("{name} | {} | {} | {} | {size}", cost.calls.len(), cost.faults, cost.peak_kib);
    Ok(cost)
}

fn netconf(run_dir: &Path) -> Value {
    json!({"cniVersion": "1.0.0", "name": "k8s", "type": "istio-cni", "plugin_log_level": "error", "cni_agent_run_dir": run_dir,
        "exclude_namespaces": ["kube-system"], "pod_namespace": "istio-system",
        "prevResult": {"cniVersion": "1.0.0", "interfaces": [{"name": "eth0"}], "ips": [{"address": "10.9.0.2/24", "interface": 0}]}})
}

fn kubeconfig(api: &ApiServer) -> Value {
    let authority = BASE64.encode(&api.authority.pem);
    json!({"apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": api.url, "certificate-authority-data": authority}}],
        "users": [{"name": "u", "user": {"token": "t"}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x"})
}

/// Builds the production plugin as the lab does.
fn build_plugin() -> Result<PathBuf> {
    let output = rig::cargo().args(["lab", "build"]).stderr(std::process::Stdio::inherit()).output()?;
    ensure!(output.status.success(), "`cargo lab build` failed: {}", output.status);
    let directory = String::from_utf8(output.stdout)?;
    Ok(Path::new(directory.lines().last().context("`cargo lab build` printed nothing")?).join("istio-cni"))
}
