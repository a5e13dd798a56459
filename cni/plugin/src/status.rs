// SPDX-License-Identifier: Apache-2.0
//! STATUS: a runtime whose STATUS fails takes the node for not ready, so that no pod without host network starts, the agent's own included.
//! By default only a configuration that does not parse fails it; what else is missing is logged.

use protocol::agent::{PodKey, RequestKind};
use protocol::error::{CniError, Code};
use protocol::netconf::{NetConf, StatusGate};

use crate::agent::ASK_LIMIT;
use crate::context::Call;

/// Serves a STATUS; there is nothing to print.
///
/// # Errors
/// When the configuration does not parse, or the agent is asked for and does not answer.
pub fn run(call: &mut Call<'_>, stdin: &[u8]) -> Result<String, CniError> {
    let conf = NetConf::parse(stdin)?;
    call.configure(&conf);
    match conf.status_gate {
        StatusGate::Agent => agent_is_ready(call, &conf)?,
        StatusGate::Unrecognised => {
            call.log.warn("this build does not know the status gate; only the configuration is checked", &[]);
            note_what_is_missing(call, &conf);
        }
        StatusGate::Config => note_what_is_missing(call, &conf),
    }
    Ok(String::new())
}

/// Any answer will do: an agent that answers serves pods.
fn agent_is_ready(call: &Call<'_>, conf: &NetConf) -> Result<(), CniError> {
    let socket = conf.agent_socket();
    let question = RequestKind::Pod(PodKey::default());
    match call.agent.send(&socket, question, ASK_LIMIT).and_then(|answer| answer.wait()) {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(CniError::new(Code::NOT_AVAILABLE, format!("the node agent is not ready: {error}"))
                .with_details(format!("asked at {}", socket.display())))
        }
    }
}

fn note_what_is_missing(call: &mut Call<'_>, conf: &NetConf) {
    let kubeconfig = conf.kubeconfig();
    if !conf.agent_socket().exists() && !kubeconfig.exists() {
        let message = "neither agent nor kubeconfig: pods of the mesh cannot start until the node agent runs";
        call.log.warn(message, &[("kubeconfig", &kubeconfig.display())]);
    }
}
