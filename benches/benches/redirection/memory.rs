// SPDX-License-Identifier: Apache-2.0
//! Benches without a kernel, by number of rules. Criterion keeps the statistics; the table has medians.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use benches::pod::PodNamespace;
use benches::report::{Cell, Effort, Table};
use benches::rounds::{quantile, sorted};
use benches::rules::{POD, config, pod_config, sized_config};
use criterion::Criterion;
use netfilter::Snapshot;
use protocol::pod::PodFacts;
use redirect::config::Config;
use redirect::generate::ruleset;
use redirect::packet::{Connection, Hook, Layer4, Packet};
use redirect::ruleset::{Dialect, Port, Ruleset};
use redirect::text::{native, restore};
use redirect::verdict::verdict;

/// Numbers of IPv4 rules.
pub(crate) const SIZES: [u16; 3] = [18, 100, 1000];
/// A cost that grows with the square of the rules is ten times as much for each of 1,000 as for each of 100; this is far from either.
const GROWTH: f64 = 3.0;

/// Measures, and names costs that grow faster than the rules.
pub(crate) fn measure(effort: Effort) -> Result<(Table, Vec<String>)> {
    let (warm_up, measurement) = effort.pick((5, 20), (100, 400));
    let criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(warm_up))
        .measurement_time(Duration::from_millis(measurement))
        .without_plots();
    let columns = ["in memory, ns", "pod", "18", "100", "1,000", "a rule, 18 to 100", "a rule, 100 to 1,000"];
    let table = Table::new("In memory", &columns);
    let mut bench = Bench { criterion, table, growth: Vec::new() };
    let facts: PodFacts = serde_json::from_str(POD)?;
    let pod = bench.time("pod to rules", &mut || config(&facts).map(|config| ruleset(&config)));
    bench.table.row("pod to rules", vec![pod.median.into()]);
    for dialect in [Dialect::Iptables, Dialect::Nft] {
        rules(&mut bench, dialect)?;
    }
    comparisons(&mut bench)?;
    Ok((bench.table, bench.growth))
}

/// Nanoseconds of one run.
#[derive(Debug, Clone, Copy)]
struct Nanos {
    /// Minimum, which is free of noise.
    least: f64,
    median: f64,
}

struct Bench {
    criterion: Criterion,
    table: Table,
    growth: Vec<String>,
}

impl Bench {
    /// Times one run.
    fn time<T>(&mut self, name: &str, work: &mut impl FnMut() -> T) -> Nanos {
        let mut samples = Vec::new();
        self.criterion.bench_function(name, |bencher| {
            bencher.iter_custom(|count| {
                let start = Instant::now();
                for _ in 0..count {
                    black_box(work());
                }
                let took = start.elapsed();
                samples.push(took.as_secs_f64() * 1e9 / count as f64);
                took
            });
        });
        let samples = sorted(samples);
        Nanos { least: quantile(&samples, 0.0), median: quantile(&samples, 0.5) }
    }

    /// One row: `work` on what is there for the pod and for each size. It is to cost the same for each rule.
    fn by_size<S, T>(&mut self, name: &str, subjects: &[S], mut work: impl FnMut(&S) -> T) {
        let times: Vec<Nanos> = std::iter::once("pod".to_owned())
            .chain(SIZES.map(|size| format!("{size} rules")))
            .zip(subjects)
            .map(|(size, subject)| self.time(&format!("{name}/{size}"), &mut || work(subject)))
            .collect();
        let &[_, small, middle, large] = times.as_slice() else { return };
        let [few, some, many] = SIZES.map(f64::from);
        let slope = |from: Nanos, to: Nanos, rules: f64| Cell::from((to.median - from.median) / rules);
        let mut cells: Vec<Cell> = times.iter().map(|time| time.median.into()).collect();
        cells.extend([slope(small, middle, some - few), slope(middle, large, many - some)]);
        self.table.row(name, cells);
        if large.least / many > GROWTH * middle.least / some {
            self.growth.push(name.to_owned());
        }
    }
}

/// Configurations for the pod and for each size.
fn configs(dialect: Dialect) -> Result<Vec<Config>> {
    let sizes = SIZES.into_iter().map(|size| sized_config(dialect, size));
    std::iter::once(pod_config(dialect)).chain(sizes).collect()
}

fn rulesets(configs: &[Config]) -> Result<Vec<Ruleset>> {
    configs.iter().map(|config| Ok(ruleset(config)?)).collect()
}

fn rules(bench: &mut Bench, dialect: Dialect) -> Result<()> {
    let configs = configs(dialect)?;
    let rulesets = rulesets(&configs)?;
    let (name, back_end) = match dialect {
        Dialect::Iptables => ("iptables", "nft-compat"),
        Dialect::Nft => ("nft", "nft"),
    };
    bench.by_size(&format!("generate, {name}"), &configs, ruleset);
    bench.by_size(&format!("text, {name}"), &rulesets, |rules| match dialect {
        Dialect::Iptables => rules.families().map(|family| restore(rules, family).len()).sum(),
        Dialect::Nft => native(rules).len(),
    });
    bench
        .by_size(&format!("encode, {back_end}"), &rulesets, |rules| netfilter::encode::batch(rules, Some(1)));
    let packets = packets()?;
    let mut turn = packets.iter().cycle();
    let verdict = |rules: &Ruleset| turn.next().map(|packet| verdict(rules, packet));
    bench.by_size(&format!("verdict on a packet, {name}"), &rulesets, verdict);
    Ok(())
}

/// First packets of connections of every kind that a pod has.
fn packets() -> Result<Vec<Packet>> {
    let packet = |hook, source: &str, destination: &str, interface: &'static str, id| -> Result<Packet> {
        let (source, destination) = (source.parse()?, destination.parse()?);
        let layer4 = Layer4::Tcp { source: 40_000, destination: 8080 };
        let (uid, gid, connection) = (id, id, Connection::New);
        let interface = interface.into();
        let (mark, connmark) = (0, 0);
        Ok(Packet { hook, source, destination, layer4, interface, uid, gid, connection, mark, connmark })
    };
    [
        packet(Hook::Output, "10.9.0.2", "10.1.2.3", "eth0", Some(1000)),
        packet(Hook::Output, "10.9.0.2", "10.1.2.3", "eth0", Some(1337)),
        packet(Hook::Output, "127.0.0.1", "127.0.0.1", "lo", Some(1000)),
        packet(Hook::Output, "10.9.0.2", "10.9.0.2", "lo", Some(1337)),
        packet(Hook::Output, "fd00:9::2", "fd00:1::3", "eth0", Some(1000)),
        packet(Hook::Prerouting, "10.1.2.3", "10.9.0.2", "eth0", None),
        packet(Hook::Prerouting, "fd00:1::3", "fd00:9::2", "eth0", None),
    ]
    .into_iter()
    .collect()
}

/// Comparisons with a namespace that holds rules already. The namespace is real, reading it is not timed.
fn comparisons(bench: &mut Bench) -> Result<()> {
    let configs = configs(Dialect::Iptables)?;
    let same = configs.iter().map(|config| held(config, config)).collect::<Result<Vec<_>>>()?;
    bench.by_size("compare, as wanted", &same, |(there, wanted)| netfilter::compare(there, wanted));
    let other =
        |config: &Config| held(&Config { inbound_ports_exclude: moved(config), ..config.clone() }, config);
    let other = configs.iter().map(other).collect::<Result<Vec<_>>>()?;
    bench.by_size("plan, other ports there", &other, |(there, wanted)| netfilter::plan::plan(there, wanted));
    let interfaces = configs.iter().map(|config| {
        let config = by_interfaces(config);
        held(&config, &config)
    });
    let interfaces = interfaces.collect::<Result<Vec<_>>>()?;
    bench.by_size("compare, as wanted, by excluded interfaces", &interfaces, |(there, wanted)| {
        netfilter::compare(there, wanted)
    });
    Ok(())
}

/// Snapshot of a namespace with rules of `there`, and the desired rules.
fn held(there: &Config, wanted: &Config) -> Result<(Snapshot, Ruleset)> {
    let pod = PodNamespace::create()?;
    let there = ruleset(there)?;
    let snapshot = pod.inside(|| -> Result<Snapshot> {
        netfilter::apply(&there)?;
        Ok(netfilter::read()?)
    })??;
    Ok((snapshot, ruleset(wanted)?))
}

/// As many excluded ports, each a different one.
fn moved(config: &Config) -> Vec<Port> {
    (0_u16..).map(|port| Port::One(40_000 + port)).take(config.inbound_ports_exclude.len()).collect()
}

/// About as many rules, by excluded interfaces in place of ports: two rules each, in built-in chains.
fn by_interfaces(config: &Config) -> Config {
    let count = config.inbound_ports_exclude.len() / 2;
    let exclude_interfaces = (0..count).map(|index| format!("net{index}").into()).collect();
    Config { inbound_ports_exclude: Vec::new(), exclude_interfaces, ..config.clone() }
}
