// SPDX-License-Identifier: Apache-2.0
//! A plugin that does nothing but speak: what `istio-cni` answers to a call in which no pod is enrolled.

use protocol::args::CniArgs;
use protocol::env::{self, Command};
use protocol::error::CniError;
use protocol::netconf::{Header, NetConf};
use protocol::result::CniResult;
use protocol::version;

/// Bytes for stdout; empty for the about text and for commands without a result.
pub(crate) fn answer(get: &dyn Fn(&str) -> Option<String>, stdin: &[u8]) -> Result<String, CniError> {
    let Some(invocation) = env::parse(get)? else { return Ok(String::new()) };
    if invocation.command == Command::Version {
        return Ok(version::version_reply());
    }
    Header::parse(stdin, invocation.command)?;
    if invocation.command != Command::Add {
        return Ok(String::new());
    }
    let conf = NetConf::parse(stdin)?;
    CniArgs::parse(&invocation.args)?;
    Ok(conf.prev_result.unwrap_or_else(CniResult::empty).encode(conf.header.version)?)
}
