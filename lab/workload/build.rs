// SPDX-License-Identifier: Apache-2.0
//! Links the program at a fixed address. It is executed some ten times in each scenario: at an address by chance it would first relocate
//! 47,000 pointers, and have a copy of each page that holds one.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let env = std::env::var("CARGO_CFG_TARGET_ENV").unwrap_or_default();
    if matches!(&*env, "gnu" | "musl") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-bins=-static");
    }
    if env == "musl" {
        // rustc links what begins a static-pie (`rcrt1.o`), which relocates as `_DYNAMIC` says. Here it says nothing: `.bss` is zero.
        println!("cargo::rustc-link-arg-bins=-Wl,--defsym=_DYNAMIC=__bss_start");
    }
}
