// SPDX-License-Identifier: Apache-2.0
//! Tells the linker which functions an ADD uses, so that they lie together (`order.ld`, written by `ci/update-order`).

fn main() {
    println!("cargo::rerun-if-changed=order.ld");
    // A build that is not optimized keeps other functions apart, and nobody waits for it.
    if std::env::var_os("PROFILE").is_some_and(|profile| profile == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}/order.ld", env!("CARGO_MANIFEST_DIR"));
    }
}
