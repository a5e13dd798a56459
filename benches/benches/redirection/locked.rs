// SPDX-License-Identifier: Apache-2.0
//! One pod while another process holds a lock of the legacy tools: the node's, or the pod's own. Nobody may wait for it but the legacy
//! back end for the pod's, and that says so within its deadline, in a way that its caller can act on.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use benches::contender::{self, SetUp};
use benches::holder::{Held, Lock};
use benches::in_process::{locked_out, netlink, tools};
use benches::pod::PodNamespace;
use benches::report::{Cell, Effort, Table};
use benches::rounds::{Rounds, quantile, sorted};
use benches::rules::pod_config;
use netfilter::Applied::Created;
use netfilter::iptables::{Variant, is_installed};
use netfilter::program::Options;
use redirect::generate::ruleset;
use redirect::ruleset::{Dialect, Family, Ruleset};
use redirect::text::restore;

/// Deadline of the legacy back end here, and wait of `iptables-legacy-restore`.
const DEADLINE: Duration = Duration::from_secs(2);
/// With a lock held nobody may take longer than this times what it takes without.
const GOAL: f64 = 1.5;

/// Constructor of a contender, called for each state of the locks.
type Make = Box<dyn Fn() -> Box<dyn SetUp>>;

pub(crate) fn measure(effort: Effort) -> Result<Table> {
    let compat = ruleset(&pod_config(Dialect::Iptables)?)?;
    let nft = ruleset(&pod_config(Dialect::Nft)?)?;
    let options = Options { deadline: DEADLINE, ..Options::default() };
    let rules = compat.clone();
    let by_tools = move |variant| -> Make {
        let rules = rules.clone();
        Box::new(move || Box::new(tools(variant, rules.clone(), Created, options)))
    };
    let by_netlink = |name: &'static str, rules: &Ruleset| -> Make {
        let rules = rules.clone();
        Box::new(move || Box::new(netlink(name, rules.clone(), Created)))
    };
    let both = [Some(Lock::Node), Some(Lock::Pod)];
    let mut rows = vec![
        (by_netlink("nft-compat", &compat), both),
        (by_netlink("nft", &nft), both),
        (by_tools(Variant::Nft), both),
        (by_tools(Variant::Legacy), [Some(Lock::Node), None]),
    ];
    let columns =
        ["while another process holds", "nothing, p50 us", "the node's lock, x", "the pod's lock, x", "goal"];
    let mut table = Table::new("Apply, beside a held lock", &columns);
    rows.retain(|(make, _)| {
        let contender = make();
        let worked = PodNamespace::create().and_then(|pod| contender.set_up(&pod));
        worked
            .map_err(|error| table.row(contender.name(), vec![format!("{error:#}").as_str().into()]))
            .is_ok()
    });
    interleaved(effort, &rows, &mut table)?;
    if is_installed(Variant::Legacy) {
        refused(effort, &compat, options, &mut table)?;
    }
    Ok(table)
}

/// Contenders that do not wait: with and without a held lock, in turns.
fn interleaved(effort: Effort, rows: &[(Make, [Option<Lock>; 2])], table: &mut Table) -> Result<()> {
    let mut contenders = Vec::new();
    let mut places = Vec::new();
    for (make, locks) in rows {
        let free = contenders.len();
        contenders.push(make());
        let held = locks.map(|lock| {
            lock.map(|lock| {
                contenders.push(Box::new(Held::new(make(), lock)));
                contenders.len() - 1
            })
        });
        places.push((free, held));
    }
    let mut rounds = Rounds::new(contenders);
    (0..effort.pick(3, 40)).try_for_each(|_| rounds.round())?;
    let names = rounds.names();
    for (free, held) in places {
        let ratios = held.map(|held| held.map(|held| rounds.ratio(held, free)));
        let waits = ratios.into_iter().flatten().any(|ratio| ratio > GOAL);
        let goal = if waits { "waits for nothing: missed" } else { "waits for nothing: met" };
        let p50 = quantile(&rounds.micros(free), 0.5);
        let cells = [Cell::from(p50)].into_iter().chain(ratios.map(Cell::from)).chain([goal.into()]);
        table.row(&names[free], cells.collect());
    }
    Ok(())
}

/// Contenders that cannot proceed: time until they report it.
fn refused(effort: Effort, rules: &Ruleset, options: Options, table: &mut Table) -> Result<()> {
    let times = effort.pick(1, 5);
    let ours = Held::new(Box::new(locked_out(rules.clone(), options)), Lock::Pod);
    let took = (0..times).map(|_| ours.set_up(&PodNamespace::create()?)).collect::<Result<Vec<_>>>()?;
    let goal = format!("typed and retriable within {} s: met", DEADLINE.as_secs());
    refusal("iptables-legacy, the pod's lock held", &took, &goal, table);

    let waiting = contender::restore("legacy", restore(rules, Family::V4), None).map(|mut tool| {
        tool.processes[0].arguments.push("--wait=1".to_owned());
        Held::new(Box::new(tool), Lock::Node)
    });
    let Some(tool) = waiting else { return Ok(()) };
    let took = (0..times).map(|_| -> Result<Duration> {
        let pod = PodNamespace::create()?;
        let start = Instant::now();
        ensure!(tool.set_up(&pod).is_err(), "it ran although the lock is held");
        Ok(start.elapsed())
    });
    let took = took.collect::<Result<Vec<_>>>()?;
    refusal("iptables-legacy-restore --wait=1, the node's lock held", &took, "", table);
    Ok(())
}

fn refusal(name: &str, took: &[Duration], goal: &str, table: &mut Table) {
    let seconds = quantile(&sorted(took.iter().map(Duration::as_secs_f64).collect()), 0.5);
    let says = format!("fails after {seconds:.2} s");
    table.row(name, vec![says.as_str().into(), Cell::Nothing, Cell::Nothing, goal.into()]);
}
