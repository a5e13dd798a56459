// SPDX-License-Identifier: Apache-2.0
//! `cargo fuzz run netconf --features libfuzzer`; what it does is in [`fuzz::netconf`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::netconf(data));
