// SPDX-License-Identifier: Apache-2.0
//! `cargo fuzz run nft_json --features libfuzzer`; what it does is in [`fuzz::nft_json`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::nft_json(data));
