// SPDX-License-Identifier: Apache-2.0
//! Links the program at a fixed address. It is executed some fifteen times in each scenario: at an address by chance it would first relocate
//! 47,000 pointers, and have a copy of each page that holds one.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-bins=-static");
    }
}
