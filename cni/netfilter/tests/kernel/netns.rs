// SPDX-License-Identifier: Apache-2.0
//! Opening and entering namespaces.

use std::os::fd::{AsFd, AsRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use netfilter::{Netns, NetnsError};

use crate::world::World;
use crate::{Case, Needs};

pub(crate) const CASES: &[Case] = &[
    Case("entering_comes_back", Needs::Namespace, comes_back),
    Case("entering_comes_back_from_a_panic", Needs::Namespace, comes_back_from_a_panic),
    Case("entering_for_good_stays", Needs::Namespace, stays),
    Case("what_is_not_a_network_namespace_is_refused", Needs::Namespace, refused),
];

/// Another namespace, by a path that outlives its thread.
fn another(world: World) -> (Netns, Netns) {
    let held = world.fresh(|| Netns::current().unwrap());
    let path = format!("/proc/self/fd/{}", held.as_fd().as_raw_fd());
    let again = Netns::open(path).unwrap();
    assert_eq!(held.id(), again.id());
    (held, again)
}

fn comes_back(world: World) {
    world.fresh(|| {
        let (_held, there) = another(world);
        let here = Netns::current().unwrap().id();
        assert_ne!(here, there.id());
        let inside = there.enter(|| Netns::current().unwrap().id()).unwrap();
        assert_eq!(inside, there.id());
        assert_eq!(Netns::current().unwrap().id(), here);
        let early: Result<(), &str> = there.enter(|| Err("early")).unwrap();
        assert_eq!(early, Err("early"));
        assert_eq!(Netns::current().unwrap().id(), here);
    });
}

fn comes_back_from_a_panic(world: World) {
    world.fresh(|| {
        let (_held, there) = another(world);
        let here = Netns::current().unwrap().id();
        let panicked =
            catch_unwind(AssertUnwindSafe(|| there.enter(|| std::panic::resume_unwind(Box::new(())))));
        assert!(panicked.is_err());
        assert_eq!(Netns::current().unwrap().id(), here);
    });
}

fn stays(world: World) {
    world.fresh(|| {
        let (_held, there) = another(world);
        there.enter_for_good().unwrap();
        assert_eq!(Netns::current().unwrap().id(), there.id());
    });
}

fn refused(_: World) {
    let missing = Netns::open("/nonexistent/netns").unwrap_err();
    assert!(matches!(missing, NetnsError::Open { .. }));
    assert_eq!(
        missing.to_string(),
        "failed to open netns \"/nonexistent/netns\": No such file or directory (os error 2)"
    );
    let file = Netns::open("/proc/self/status").unwrap_err();
    assert!(matches!(file, NetnsError::NotANamespace { .. }), "{file}");
    let other_kind = Netns::open("/proc/self/ns/uts").unwrap();
    let entered = other_kind.enter(|| panic!("must not run")).unwrap_err();
    assert!(matches!(entered, NetnsError::Enter { .. }), "{entered}");
}
