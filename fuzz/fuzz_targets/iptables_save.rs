// SPDX-License-Identifier: Apache-2.0
//! `cargo fuzz run iptables_save --features libfuzzer`; what it does is in [`fuzz::iptables_save`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::iptables_save(data));
