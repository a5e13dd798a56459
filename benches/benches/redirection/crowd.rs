// SPDX-License-Identifier: Apache-2.0
//! As after a drain: 110 pods, 16 at a time.

use std::path::Path;

use anyhow::Result;
use benches::burst::burst;
use benches::contender;
use benches::floor;
use benches::in_process::{self, netlink, tools};
use benches::report::{Cell, Effort, Table};
use benches::rounds::{Shuffle, quantile, sorted};
use benches::rules::pod_config;
use netfilter::Applied::Created;
use netfilter::iptables::Variant;
use netfilter::program::Options;
use redirect::generate::ruleset;
use redirect::ruleset::{Dialect, Family};
use redirect::text::{native, restore};

use crate::apply::Field;

const WIDTH: usize = 16;

pub(crate) fn measure(effort: Effort, scratch: &Path) -> Result<Table> {
    let compat = ruleset(&pod_config(Dialect::Iptables)?)?;
    let nft = ruleset(&pod_config(Dialect::Nft)?)?;
    let mut field = Field::default();
    field.add(in_process::floor("floor, in process", &compat)?, &compat)?;
    field.add(netlink("nft-compat", compat.clone(), Created), &compat)?;
    field.add(netlink("nft", nft.clone(), Created), &nft)?;
    for variant in [Variant::Nft, Variant::Legacy] {
        field.try_add(tools(variant, compat.clone(), Created, Options::default()), &compat);
    }
    field.add(contender::floor(&floor::build(&compat, scratch)?), &compat)?;
    let [v4, v6] = [Family::V4, Family::V6].map(|family| restore(&compat, family));
    field.try_tool("iptables-nft-restore v4+v6", contender::restore("nft", v4, Some(v6)), &compat);
    field.try_tool("nft -f", contender::nft(native(&nft)), &nft);
    let pods = effort.pick(16, 110);
    let mut shuffle = Shuffle::default();
    let mut samples = vec![Vec::new(); field.contenders.len()];
    for _ in 0..effort.pick(1, 7) {
        // The kernel still takes the pods of the one before apart.
        for index in shuffle.order(samples.len()) {
            samples[index].push(burst(field.contenders[index].as_ref(), pods, WIDTH)?.as_secs_f64() * 1e3);
        }
    }
    let columns = ["all pods", "p50 ms", "x floor in process"];
    let title = format!("{pods} pods, {WIDTH} at a time ({} times)", samples.first().map_or(0, Vec::len));
    let mut table = Table::new(&title, &columns);
    for (contender, own) in field.contenders.iter().zip(&samples) {
        let ratios = own.iter().zip(&samples[0]).map(|(own, floor)| own / floor);
        let ratio = quantile(&sorted(ratios.collect()), 0.5);
        let p50 = quantile(&sorted(own.clone()), 0.5);
        table.row(contender.name(), [p50, ratio].map(Cell::from).into());
    }
    for (name, reason) in &field.absent {
        table.row(name, vec![reason.as_str().into()]);
    }
    Ok(table)
}
