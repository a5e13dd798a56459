// SPDX-License-Identifier: Apache-2.0
//! The binaries under test, for tests that run `cnilab`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The binaries under test, in the profile of this very build: quick, and it need not be static here.
pub(crate) fn binaries() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build)
}

fn build() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_cnilab")).parent().unwrap().to_owned();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    // With this package, as the lab builds them: what they depend on is built already.
    build.args([
        "build",
        "--quiet",
        "--package",
        "cnilab",
        "--package",
        "istio-cni",
        "--package",
        "workload",
    ]);
    // Of the directory of the target that is built for.
    build.arg("--target-dir").arg(target.ancestors().nth(2).unwrap());
    // Told of the package under test, build scripts would run again, and once more in the next build.
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("CARGO_PKG_")
            || key.to_string_lossy().starts_with("CARGO_MANIFEST_")
        {
            build.env_remove(key);
        }
    }
    assert!(build.status().unwrap().success());
    target
}
