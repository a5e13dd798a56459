// SPDX-License-Identifier: Apache-2.0
//! A pod with a user namespace of its own (`hostUsers: false`), programmed by root of the node.

use netfilter::address::Rtnetlink;
use netfilter::backend::Backend;
use netfilter::owner::{self, Entered, OwnerError};
use netfilter::program::{Options, ProgramError, Request, program};
use netfilter::{ApplyError, Netns, Wish, has_rules_of_ours, read};
use redirect::config::Config;
use redirect::list::Selection;
use redirect::ruleset::Id;

use crate::child::Holder;
use crate::world::World;
use crate::{Case, Needs};
use rig::link::up;
use rig::process::command;

pub(crate) const CASES: &[Case] = &[
    Case("rules_of_a_pod_with_its_own_users_mean_its_users", Needs::Users, its_users),
    Case(
        "rules_of_a_pod_with_its_own_users_are_written_by_every_back_end",
        Needs::ToolsAndUsers,
        every_back_end,
    ),
    Case("a_pod_with_its_own_users_ends_with_one_set", Needs::ToolsAndUsers, one_set),
    Case("a_user_that_the_pod_does_not_have_is_told", Needs::Users, unmapped),
    Case("a_pod_with_its_own_users_needs_a_process_with_one_thread", Needs::Users, threads),
    Case("an_ordinary_pod_has_the_user_namespace_of_the_node", Needs::Namespace, ordinary),
];

/// As a runtime maps the users of such a pod.
const MAP: &str = "0 100000 65536";

/// Wanted state, with the proxy running as this user.
pub(crate) fn request(wish: Wish, user: u32) -> Request {
    let config = Config {
        proxy_uids: vec![Id::Number(user)],
        proxy_gids: vec![Id::Number(user)],
        outbound_ranges_include: Selection::All,
        ..Config::default()
    };
    Request { config, wish, recorded: None, options: Options::default() }
}

/// Programs the namespace in a process of its own; what that says, and whether it succeeded.
fn programmed(holder: &Holder, backend: &str, user: u32) -> (String, bool) {
    let output = command(&["program", &holder.netns(), backend, &user.to_string()]).output().unwrap();
    (String::from_utf8(output.stdout).unwrap().trim().to_owned(), output.status.success())
}

/// Packet count of each rule in the pod.
fn counts(holder: &Holder) -> Vec<u64> {
    let netns = Netns::open(holder.netns()).unwrap();
    let held = netns.enter(|| read().unwrap()).unwrap();
    held.counters().map(|rule| rule.counter.packets).collect()
}

fn its_users(_: World) {
    let holder = Holder::start(MAP);
    Netns::open(holder.netns()).unwrap().enter(|| up(&[])).unwrap();
    assert_eq!(programmed(&holder, "auto", 1337), (Backend::NftCompat.to_string(), true));
    assert_eq!(programmed(&holder, "auto", 1337), (Backend::NftCompat.to_string(), true), "again");
    let before = counts(&holder);
    let send = |user: &str| {
        assert!(command(&["send", &holder.id(), user]).status().unwrap().success());
        counts(&holder)
    };
    let by_proxy = send("1337");
    let by_app = send("1000");
    assert_ne!(before, by_proxy);
    let changed = |from: &[u64], to: &[u64]| -> Vec<usize> {
        (0..to.len()).filter(|at| from[*at] != to[*at]).collect()
    };
    assert_ne!(
        changed(&before, &by_proxy),
        changed(&by_proxy, &by_app),
        "the proxy's packets take another way"
    );
}

fn every_back_end(_: World) {
    for backend in Backend::ALL {
        let holder = Holder::start(MAP);
        for time in ["first", "second"] {
            let (said, succeeded) = programmed(&holder, backend.name(), 1337);
            assert!(succeeded && said == backend.name(), "{backend}, {time} time: {said}");
        }
    }
}

fn one_set(_: World) {
    let holder = Holder::start(MAP);
    // The second enters the pod's users for rules of nf_tables, and then starts a tool.
    for backend in ["iptables-legacy", "nft-compat"] {
        assert_eq!(programmed(&holder, backend, 1337), (backend.to_owned(), true));
    }
}

fn unmapped(_: World) {
    let holder = Holder::start(MAP);
    let (said, succeeded) = programmed(&holder, "nft-compat", 70_000);
    assert!(!succeeded && said.contains("not mapped"), "{said}");
    let netns = Netns::open(holder.netns()).unwrap();
    assert!(!netns.enter(|| has_rules_of_ours(&read().unwrap())).unwrap());
}

fn threads(world: World) {
    let holder = Holder::start(MAP);
    world.fresh(|| {
        Netns::open(holder.netns()).unwrap().enter_for_good().unwrap();
        let refused =
            netfilter::apply(&redirect::generate::ruleset(&request(Wish::Auto, 1337).config).unwrap());
        assert!(matches!(refused, Err(ApplyError::UnmappedOwner { .. })), "{refused:?}");
        let refused = program(&mut Rtnetlink::open().unwrap(), request(Wish::Auto, 1337));
        assert!(matches!(refused, Err(ProgramError::Owner(OwnerError::Threads))), "{refused:?}");
        assert!(!has_rules_of_ours(&read().unwrap()));
    });
}

fn ordinary(world: World) {
    world.fresh(|| assert_eq!(owner::enter().unwrap(), Entered::Before));
}
