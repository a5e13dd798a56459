// SPDX-License-Identifier: Apache-2.0
//! `cargo fuzz run nft_list --features libfuzzer`; what it does is in [`fuzz::nft_list`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::nft_list(data));
