// SPDX-License-Identifier: Apache-2.0
//! DEL: the pod's rules die with its namespace, so nothing is changed and nothing can fail. The agent is told, if it listens.
//! Comes twice, without a namespace, long after the agent has gone, and with a configuration of any version.

use protocol::agent::RequestKind;
use protocol::args::CniArgs;
use protocol::netconf::NetConf;

use crate::agent::{AgentError, TELL_LIMIT};
use crate::context::Call;

/// Serves a DEL; there is nothing to print.
pub fn run(call: &mut Call<'_>, stdin: &[u8]) -> String {
    // A configuration or arguments that ADD would refuse must not keep the runtime from cleaning up.
    if let (Ok(conf), Ok(args)) = (NetConf::parse(stdin), CniArgs::parse(&call.invocation.args)) {
        call.configure(&conf);
        tell(call, &conf, args);
    }
    String::new()
}

fn tell(call: &mut Call<'_>, conf: &NetConf, args: CniArgs) {
    if !conf.knows_agent() || args.pod_name.is_empty() || args.pod_namespace.is_empty() {
        return;
    }
    let key = call.pod_key(args);
    match call.agent.send(&conf.agent_socket(), RequestKind::Deleted(key), TELL_LIMIT) {
        Ok(_) | Err(AgentError::Absent) => {}
        Err(error) => call.log.debug("the agent was not told of the deletion", &[("reason", &error)]),
    }
}
