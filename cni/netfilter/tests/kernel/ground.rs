// SPDX-License-Identifier: Apache-2.0
//! Prerequisites of rules: laid first, taken back if rules fail.

use netfilter::address::{Rtnetlink, list};
use netfilter::program::{Options, ProgramError, Request, program};
use netfilter::{Applied, Backend, Wish, ground, read};
use redirect::config::{Config, Mode};
use redirect::list::Selection;
use redirect::ruleset::{Family, Id, Port};

use crate::policy::{self, ByMark, PLAIN};
use crate::world::World;
use crate::{Case, Needs};
use rig::link::up;

pub(crate) const CASES: &[Case] = &[
    Case("a_tproxy_pod_is_programmed_once_with_its_routes", Needs::Namespace, tproxy),
    Case("routes_and_address_are_taken_back_if_the_rules_fail", Needs::Tools, taken_back),
    Case("what_was_there_before_failing_rules_stays", Needs::Tools, kept),
    Case("a_clean_up_with_another_stack_leaves_nothing", Needs::Namespace, cleared),
    Case("routes_go_when_a_pod_is_programmed_without_tproxy", Needs::Namespace, redirected),
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

/// Rules that fail when the address and the routes are there already: only the tools can tell what service a name is.
fn impossible() -> Request {
    let mut request = Request { wish: Wish::Only(Backend::IptablesNft), ..request(&[0]) };
    request.config.outbound_ports_exclude = vec![Port::Verbatim("no-such-service".to_owned())];
    request
}

/// Addresses, policy rules, and the routes of table 133.
fn listing() -> Vec<String> {
    let mut lines = policy::listing();
    lines.retain(|line| line.contains("lookup") || line.contains("table 133 "));
    lines.extend(list().unwrap().iter().map(|address| format!("{address:?}")));
    lines
}

/// A namespace with `lo` up.
fn fresh(world: World, work: impl FnOnce() + Send) {
    world.fresh(|| {
        up(&[]);
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

fn cleared(world: World) {
    fresh(world, || {
        let before = listing();
        let mut rtnetlink = Rtnetlink::open().unwrap();
        let one = |mode| Config { ipv6: false, mode, ..request(&[0]).config };
        for mode in [Mode::Tproxy, Mode::Redirect] {
            program(&mut rtnetlink, request(&[0])).unwrap();
            ground::clear(&mut rtnetlink, &one(mode)).unwrap();
            assert_eq!(listing(), before, "{mode:?}");
        }
        program(&mut rtnetlink, request(&[0])).unwrap();
        program(&mut rtnetlink, Request { config: one(Mode::Redirect), ..request(&[0]) }).unwrap();
        assert_eq!(listing().len(), before.len() + 1, "the address alone: {:?}", listing());
    });
}

fn taken_back(world: World) {
    fresh(world, || {
        let before = listing();
        let failed = program(&mut Rtnetlink::open().unwrap(), impossible());
        assert!(matches!(failed, Err(ProgramError::Iptables(_))), "{failed:?}");
        assert_eq!(listing(), before);
    });
}

fn kept(world: World) {
    fresh(world, || {
        let mut rtnetlink = Rtnetlink::open().unwrap();
        program(&mut rtnetlink, request(&[0])).unwrap();
        ByMark { family: Family::V6, ..PLAIN }.delete();
        let before = (listing(), read().unwrap().tables);
        let failed = program(&mut rtnetlink, impossible());
        assert!(matches!(failed, Err(ProgramError::Iptables(_))), "{failed:?}");
        assert_eq!((listing(), read().unwrap().tables), before);
    });
}

fn redirected(world: World) {
    fresh(world, || {
        ByMark { table: 7, ..PLAIN }.add();
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
