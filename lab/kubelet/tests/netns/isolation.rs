// SPDX-License-Identifier: Apache-2.0
//! Environment of a test's process: the workload binary and users.

use std::path::PathBuf;

/// Path of the workload binary; built if this is not set.
const WORKLOAD: &str = "KUBELET_TEST_WORKLOAD";

/// Path of the workload binary.
pub(crate) fn workload() -> PathBuf {
    std::env::var_os(WORKLOAD).map_or_else(|| profile().join("workload"), PathBuf::from)
}

/// Some unprivileged user, or the only one.
pub(crate) fn some_user() -> u32 {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    if map.split_whitespace().nth(2) == Some("1") { 0 } else { 1000 }
}

/// TARGET-DIR/TRIPLE/PROFILE, of TARGET-DIR/TRIPLE/PROFILE/deps/netns-…
fn profile() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
}

/// Builds the workload binary where it is looked for.
pub(crate) fn build_workload() {
    if std::env::var_os(WORKLOAD).is_some() {
        return;
    }
    let profile = profile();
    let mut cargo = rig::cargo();
    // As `cargo lab run` does where musl is not installed.
    cargo.args(["build", "--quiet", "--locked", "--package", "cnilab", "--package", "workload"]);
    cargo.args(["--bin", "workload", "--target-dir"]);
    cargo.arg(profile.ancestors().nth(2).unwrap());
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success();
    assert!(built, "workload does not build");
}
