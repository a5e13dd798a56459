// SPDX-License-Identifier: Apache-2.0
//! Rules into a fresh namespace: one pod by every back end, and rulesets of a given size. All of it in the same rounds.

use std::path::Path;

use anyhow::{Result, ensure};
use benches::contender::{self, Contender, SetUp};
use benches::floor;
use benches::in_process::{self, netlink, tools};
use benches::pod::PodNamespace;
use benches::report::{Cell, Effort, Table};
use benches::rounds::{Rounds, quantile};
use benches::rules::{pod_config, sized};
use netfilter::Applied::{Created, Replaced, Unchanged};
use netfilter::iptables::Variant;
use netfilter::program::Options;
use redirect::generate::ruleset;
use redirect::ruleset::{Dialect, Family, Ruleset};
use redirect::text::{native, restore};

use crate::memory::SIZES;

/// Maximum ratio of our transaction to the floor in process.
const GOAL: f64 = 1.3;

/// Contenders, and those that are unavailable.
#[derive(Default)]
pub(crate) struct Field {
    pub(crate) contenders: Vec<Box<dyn SetUp>>,
    /// Names with reasons.
    pub(crate) absent: Vec<(String, String)>,
}

impl Field {
    /// Lets one take part. One that leaves other rules than the wanted ones is not worth timing.
    pub(crate) fn add(&mut self, contender: impl SetUp + 'static, wanted: &Ruleset) -> Result<usize> {
        let pod = PodNamespace::create()?;
        contender.set_up(&pod)?;
        let name = contender.name();
        if name.contains("legacy") {
            tools(Variant::Legacy, wanted.clone(), Unchanged, Options::default()).set_up(&pod)?;
        } else {
            let found = pod.inside(netfilter::read)??;
            let differences = netfilter::compare(&found, wanted);
            ensure!(differences.is_empty(), "{name} left other rules: {differences:?}");
        }
        self.contenders.push(Box::new(contender));
        Ok(self.contenders.len() - 1)
    }

    /// Lets one take part that needs a tool, or something of the kernel, that may be missing here.
    pub(crate) fn try_add(&mut self, contender: impl SetUp + 'static, wanted: &Ruleset) -> Option<usize> {
        let name = contender.name().to_owned();
        let added = self.add(contender, wanted);
        added.map_err(|reason| self.absent.push((name, format!("{reason:#}")))).ok()
    }

    /// The same for a tool itself.
    pub(crate) fn try_tool(&mut self, name: &str, tool: Option<Contender>, wanted: &Ruleset) {
        match tool {
            Some(tool) => _ = self.try_add(tool, wanted),
            None => self.absent.push((name.to_owned(), "not installed".to_owned())),
        }
    }
}

/// A back end at each size, and the floors with the transactions of the same rules.
struct Sized {
    name: &'static str,
    contenders: [Option<usize>; SIZES.len()],
    floors: [usize; SIZES.len()],
}

pub(crate) fn measure(effort: Effort, scratch: &Path) -> Result<[Table; 2]> {
    let mut field = Field::default();
    let floor_process = pod(&mut field, scratch)?;
    let count = field.contenders.len();
    let sized = by_size(&mut field)?;
    let Field { contenders, absent } = field;
    let mut rounds = Rounds::new(contenders);
    (0..effort.pick(3, 150)).try_for_each(|_| rounds.round())?;
    Ok([pod_table(&rounds, count, floor_process, &absent), size_table(&rounds, &sized)])
}

/// Everyone who sets up a default sidecar. The first is the floor in process; returns the floor process.
fn pod(field: &mut Field, scratch: &Path) -> Result<usize> {
    let config = pod_config(Dialect::Iptables)?;
    let compat = ruleset(&config)?;
    let nft = ruleset(&pod_config(Dialect::Nft)?)?;
    let others = sized(Dialect::Iptables, SIZES[0])?;
    field.add(in_process::floor("floor, in process", &compat)?, &compat)?;
    field.add(netlink("nft-compat", compat.clone(), Created), &compat)?;
    let again = netlink("nft-compat, the same there", compat.clone(), Unchanged);
    field.add(again.behind(netlink("", compat.clone(), Created)), &compat)?;
    let replace = netlink("nft-compat, others of ours there", compat.clone(), Replaced);
    field.add(replace.behind(netlink("", others, Created)), &compat)?;
    field.add(in_process::whole("nft-compat, from a configuration", config), &compat)?;
    field.add(netlink("nft", nft.clone(), Created), &nft)?;
    for variant in [Variant::Nft, Variant::Legacy] {
        field.try_add(tools(variant, compat.clone(), Created, Options::default()), &compat);
    }
    let process = field.add(contender::floor(&floor::build(&compat, scratch)?), &compat)?;
    for (variant, name) in
        [("nft", "iptables-nft-restore v4+v6"), ("legacy", "iptables-legacy-restore v4+v6")]
    {
        let [v4, v6] = [Family::V4, Family::V6].map(|family| restore(&compat, family));
        field.try_tool(name, contender::restore(variant, v4, Some(v6)), &compat);
    }
    field.try_tool("nft -f", contender::nft(native(&nft)), &nft);
    Ok(process)
}

fn by_size(field: &mut Field) -> Result<Vec<Sized>> {
    let mut table = Vec::new();
    let mut native_floors = [0; SIZES.len()];
    let mut rows = ["nft-compat", "nft", "iptables-nft", "iptables-legacy"].map(|name| Sized {
        name,
        contenders: [None; SIZES.len()],
        floors: [0; SIZES.len()],
    });
    for (at, size) in SIZES.into_iter().enumerate() {
        let compat = sized(Dialect::Iptables, size)?;
        let nft = sized(Dialect::Nft, size)?;
        let floor = field.add(in_process::floor(format!("floor, {size}"), &compat)?, &compat)?;
        native_floors[at] = field.add(in_process::floor(format!("floor, nft, {size}"), &nft)?, &nft)?;
        let found = [
            Some(field.add(netlink(format!("nft-compat, {size}"), compat.clone(), Created), &compat)?),
            Some(field.add(netlink(format!("nft, {size}"), nft.clone(), Created), &nft)?),
            field.try_add(tools(Variant::Nft, compat.clone(), Created, Options::default()), &compat),
            field.try_add(tools(Variant::Legacy, compat.clone(), Created, Options::default()), &compat),
        ];
        for (row, found) in rows.iter_mut().zip(found) {
            row.contenders[at] = found;
            row.floors[at] = if row.name == "nft" { native_floors[at] } else { floor };
        }
    }
    let floors = rows[0].floors;
    table.push(Sized { name: "floor, in process", contenders: floors.map(Some), floors });
    table.extend(rows);
    Ok(table)
}

fn pod_table(rounds: &Rounds, count: usize, floor_process: usize, absent: &[(String, String)]) -> Table {
    let columns = ["one pod, v4+v6", "p50 us", "p90 us", "x floor in process", "x floor process", "goal"];
    let mut table = Table::new(&format!("Apply, one pod ({} rounds)", rounds.count()), &columns);
    for (index, name) in rounds.names().iter().take(count).enumerate() {
        let micros = rounds.micros(index);
        let ratio = rounds.ratio(index, 0);
        let goal = if name != "nft-compat" {
            Cell::Nothing
        } else if ratio <= GOAL {
            format!("<= {GOAL}: met").as_str().into()
        } else {
            format!("<= {GOAL}: missed").as_str().into()
        };
        let quantiles = [0.5, 0.9].map(|at| Cell::from(quantile(&micros, at)));
        let ratios = [ratio, rounds.ratio(index, floor_process)].map(Cell::from);
        table.row(name, quantiles.into_iter().chain(ratios).chain([goal]).collect());
    }
    for (name, reason) in absent {
        table.row(name, vec![reason.as_str().into()]);
    }
    table
}

fn size_table(rounds: &Rounds, sized: &[Sized]) -> Table {
    let columns = [
        "by number of IPv4 rules, p50 us",
        "18",
        "100",
        "1,000",
        "x floor at 18",
        "at 100",
        "at 1,000",
        "us a rule, 18 to 100",
        "100 to 1,000",
    ];
    let mut table = Table::new(&format!("Apply, by number of rules ({} rounds)", rounds.count()), &columns);
    for row in sized {
        let p50 = row.contenders.map(|found| found.map(|index| quantile(&rounds.micros(index), 0.5)));
        let ratios = row.contenders.into_iter().zip(row.floors);
        let ratios = ratios.map(|(found, floor)| found.map(|index| rounds.ratio(index, floor)));
        let [few, some, many] = SIZES.map(f64::from);
        let slope = |from: usize, to: usize, rules: f64| Some((p50[to]? - p50[from]?) / rules);
        let slopes = [slope(0, 1, some - few), slope(1, 2, many - some)];
        let cells = p50.into_iter().chain(ratios).chain(slopes);
        table.row(row.name, cells.map(Cell::from).collect());
    }
    table
}
