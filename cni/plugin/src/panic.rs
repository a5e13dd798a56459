// SPDX-License-Identifier: Apache-2.0
//! The last word of a plugin that has a bug: the runtime still gets an error that it can read.

use std::io::Write as _;
use std::panic::PanicHookInfo;

use protocol::error::{CniError, Code};

use crate::clock::SystemClock;
use crate::world::{Standard, Stderr};

/// Makes a panic print a CNI error on stdout, the same on stderr, and end the process with code 1. The result is the last thing that a
/// call prints, so nothing is on stdout before.
pub fn install() {
    std::panic::set_hook(Box::new(|info| {
        let error = describe(info);
        let _ = Standard(rustix::stdio::stdout()).write_all(error.to_json().as_bytes());
        let clock = SystemClock::start();
        let _ = Stderr::new(&clock).write_all(format!("{error}\n").as_bytes());
        std::process::exit(1);
    }));
}

fn describe(info: &PanicHookInfo<'_>) -> CniError {
    let what = info.payload_as_str().unwrap_or("for an unknown reason");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    CniError::new(Code::INTERNAL, format!("istio-cni panicked: {what}"))
        .with_details(format!("this is a bug; at {place}"))
}
