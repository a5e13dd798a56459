// SPDX-License-Identifier: Apache-2.0
//! `cargo fuzz run annotations --features libfuzzer`; what it does is in [`fuzz::annotations`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::annotations(data));
