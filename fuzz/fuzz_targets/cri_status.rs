// SPDX-License-Identifier: Apache-2.0
//! `cargo fuzz run cri_status --features libfuzzer`; what it does is in [`fuzz::cri_status`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::cri_status(data));
