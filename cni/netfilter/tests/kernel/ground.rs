// SPDX-License-Identifier: Apache-2.0
//! What rules stand on: laid before them, taken back if they fail.

use netfilter::address::Rtnetlink;
use netfilter::program::{Options, ProgramError, Request, program};
use netfilter::{Applied, Wish, ground, read};
use redirect::config::{Config, Mode};
use redirect::list::Selection;
use redirect::ruleset::{Id, Port};

use crate::tools::ip;
use crate::world::World;
use crate::{Case, Needs};

pub(crate) const CASES: &[Case] = &[
    Case("a_tproxy_pod_is_programmed_once_with_its_routes", Needs::Tools, tproxy),
    Case("routes_and_address_are_taken_back_if_the_rules_fail", Needs::Tools, taken_back),
    Case("what_was_there_before_failing_rules_stays", Needs::Tools, kept),
    Case("routes_go_when_a_pod_is_programmed_without_tproxy", Needs::Tools, redirected),
];

fn request(ids: &[u32]) -> Request {
    let ids: Vec<Id> = ids.iter().copied().map(Id::Number).collect();
    let config = Config {
        ipv6: true,
        mode: Mode::Tproxy,
        proxy_uids: ids.clone(),
        proxy_gids: ids,
        inbound_ports_include: Some(Selection::All),
        outbound_ranges_include: Selection::All,
        ..Config::default()
    };
    Request { config, wish: Wish::Auto, recorded: None, options: Options::default() }
}

/// Rules that no kernel takes.
fn impossible() -> Request {
    let mut request = request(&[0]);
    request.config.outbound_ports_exclude = vec![Port::Verbatim("http".to_owned())];
    request
}

/// Addresses, policy rules and routes, by the real tool.
fn listing() -> Vec<String> {
    ["addr show lo", "-4 rule list", "-6 rule list", "-4 route show table 133", "-6 route show table 133"]
        .map(|what| ip(&format!("-o {what}")))
        .concat()
}

/// A namespace with `lo` up and with the table, so that listing it is no error.
fn fresh(world: World, work: impl FnOnce() + Send) {
    world.fresh(|| {
        ip("link set lo up");
        ip("-4 route add local 203.0.113.1 dev lo table 133");
        ip("-6 route add local 2001:db8::1 dev lo table 133");
        work();
    });
}

fn tproxy(world: World) {
    fresh(world, || {
        let before = listing();
        let mut rtnetlink = Rtnetlink::open().unwrap();
        assert_eq!(program(&mut rtnetlink, request(&[0])).unwrap().applied, Applied::Created);
        let (after, rules) = (listing(), read().unwrap());
        assert_eq!(after.len(), before.len() + 5, "an address, two rules, two routes: {after:?}");
        assert_eq!(program(&mut rtnetlink, request(&[0])).unwrap().applied, Applied::Unchanged);
        assert_eq!((listing(), read().unwrap()), (after, rules));
        ground::clear(&mut rtnetlink, &request(&[0]).config).unwrap();
        assert_eq!(listing(), before);
        ground::clear(&mut rtnetlink, &request(&[0]).config).unwrap();
    });
}

fn taken_back(world: World) {
    fresh(world, || {
        let before = listing();
        let failed = program(&mut Rtnetlink::open().unwrap(), impossible());
        assert!(matches!(failed, Err(ProgramError::Apply(_))), "{failed:?}");
        assert_eq!(listing(), before);
    });
}

fn kept(world: World) {
    fresh(world, || {
        let mut rtnetlink = Rtnetlink::open().unwrap();
        program(&mut rtnetlink, request(&[0])).unwrap();
        ip("-6 rule del fwmark 1337 lookup 133");
        let before = (listing(), read().unwrap());
        let failed = program(&mut rtnetlink, impossible());
        assert!(matches!(failed, Err(ProgramError::Apply(_))), "{failed:?}");
        assert_eq!((listing(), read().unwrap()), before);
    });
}

fn redirected(world: World) {
    fresh(world, || {
        ip("rule add fwmark 1337 lookup 7");
        let before = listing();
        let mut rtnetlink = Rtnetlink::open().unwrap();
        program(&mut rtnetlink, request(&[0])).unwrap();
        let mut request = request(&[0]);
        request.config.mode = Mode::Redirect;
        assert_eq!(program(&mut rtnetlink, request).unwrap().applied, Applied::Replaced);
        let after = listing();
        assert_eq!(after.len(), before.len() + 1, "the address alone: {after:?}");
        assert!(after.iter().any(|line| line.contains("lookup 7")), "somebody else's stays: {after:?}");
    });
}
