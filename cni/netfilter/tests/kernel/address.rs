// SPDX-License-Identifier: Apache-2.0
//! Addresses of a namespace.

use std::net::IpAddr;

use netfilter::address::{Address, AddressError, HELPER, Helper, add_loopback_helper, list};

use crate::world::World;
use crate::{Case, Needs};

pub(crate) const CASES: &[Case] = &[
    Case("the_helper_address_is_added_once", Needs::Namespace, added_once),
    Case("disabled_ipv6_is_told", Needs::Namespace, disabled),
];

fn added_once(world: World) {
    world.fresh(|| {
        assert_eq!(list().unwrap(), []);
        assert_eq!(add_loopback_helper().unwrap(), Helper::Added);
        assert_eq!(add_loopback_helper().unwrap(), Helper::Present);
        let addresses = list().unwrap();
        let [Address { ip: IpAddr::V6(HELPER), length: 128, interface: 1, flags, .. }] = addresses[..] else {
            panic!("{addresses:?}");
        };
        assert_ne!(flags & 0x02, 0, "IFA_F_NODAD: {flags:#x}");
    });
}

fn disabled(world: World) {
    world.fresh(|| {
        std::fs::write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "1").unwrap();
        let Err(AddressError::Ipv6Disabled) = add_loopback_helper() else { panic!() };
        assert_eq!(list().unwrap(), []);
    });
}
