// SPDX-License-Identifier: Apache-2.0
//! `cargo fuzz run netlink_replies --features libfuzzer`; what it does is in [`fuzz::netlink_replies`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::netlink_replies(data));
