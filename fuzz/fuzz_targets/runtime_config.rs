// SPDX-License-Identifier: Apache-2.0
//! `cargo fuzz run runtime_config --features libfuzzer`; what it does is in [`fuzz::runtime_config`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::runtime_config(data));
