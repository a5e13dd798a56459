// SPDX-License-Identifier: Apache-2.0
//! `istio-iptables`: builds the real world and hands it to the library.

use std::io::{stderr, stdin, stdout};
use std::process::ExitCode;

use iptables::run::run;
use iptables::world::{RealKernel, World};

fn main() -> ExitCode {
    let exit = run(
        World {
            env: &|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
            file: &|path| std::fs::read_to_string(path),
            stdin: &mut stdin().lock(),
            stdout: &mut stdout().lock(),
            stderr: &mut stderr().lock(),
            kernel: &RealKernel,
        },
        std::env::args_os().skip(1),
    );
    ExitCode::from(exit.code())
}
