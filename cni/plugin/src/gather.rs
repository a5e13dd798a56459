// SPDX-License-Identifier: Apache-2.0
//! The pod's facts: from the agent if it answers, else from the API server. Which of the two, and for how long, is all that
//! is decided here.

use std::io::ErrorKind;
use std::path::PathBuf;

use protocol::agent::{PodKey, RequestKind, Response};
use protocol::netconf::NetConf;
use protocol::pod::PodFacts;

use crate::agent::{AgentError, PendingAnswer};
use crate::api::{self, ApiError, Patience, Retriable};
use crate::context::Call;
use crate::http::HttpError;
use crate::kubeconfig::{self, KubeconfigError};
use crate::remedy;

/// Source of pod facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teller {
    /// The node agent.
    Agent,
    /// The API server.
    ApiServer,
}

impl Teller {
    /// For log lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::ApiServer => "api-server",
        }
    }
}

/// Missing answer of the agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentMiss {
    /// It could not be asked.
    #[error("{0}")]
    Failed(#[from] AgentError),
    /// It does not know the pod, or not the question.
    #[error("it does not know the pod")]
    Unknown,
    /// It is of a release that does not send the pod's security context, by which the proxy runs.
    #[error("it does not know the pod's securityContext")]
    NoContext,
    /// It named another pod.
    #[error("it answered with another pod")]
    OtherPod,
}

/// Missing answer of the API server.
#[derive(Debug, thiserror::Error)]
pub enum ApiMiss {
    /// There is no way to it.
    #[error("failed to use kubeconfig {}: {error}", path.display())]
    Kubeconfig {
        /// The kubeconfig.
        path: PathBuf,
        error: KubeconfigError,
    },
    /// It did not tell.
    #[error("{0}")]
    Api(#[from] ApiError),
}

/// Nobody told about the pod.
#[derive(Debug, thiserror::Error)]
#[error("node agent: {agent}; API server: {api}")]
pub struct FactsError {
    pub agent: AgentMiss,
    pub api: ApiMiss,
}

impl FactsError {
    /// Remedy for the operator.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match &self.api {
            _ if matches!(self.agent, AgentMiss::Failed(AgentError::Denied { .. })) => remedy::DENIED,
            ApiMiss::Kubeconfig { error: KubeconfigError::Read { source, .. }, .. }
                if source.kind() == ErrorKind::PermissionDenied =>
            {
                remedy::DENIED
            }
            ApiMiss::Kubeconfig { error: KubeconfigError::Read { .. }, .. } => remedy::NO_AGENT,
            // Credentials die with the account: what is left of an uninstall that could not end looks like this, too.
            ApiMiss::Api(ApiError::Denied { .. }) if self.nobody_listens() => remedy::LEFT_BEHIND,
            ApiMiss::Kubeconfig { .. } => "delete the file and restart the node agent, which writes it anew",
            ApiMiss::Api(ApiError::Denied { .. }) => {
                "look at the node agent's token: whether its service account exists, may get pods, and the agent runs and renews it"
            }
            ApiMiss::Api(ApiError::Unusable(HttpError::Certificate(_))) => {
                "compare the API server's certificate with the authorities in the ConfigMap kube-root-ca.crt, and the node's clock with the API server's"
            }
            ApiMiss::Api(ApiError::GaveUp {
                last: Retriable::NotFound | Retriable::OtherUid { .. }, ..
            }) => {
                "nothing is to be done: the API server answered, the pod was deleted or made anew under its name meanwhile, and the kubelet gives this one up by itself"
            }
            // Nobody was asked, or only the pod can be another.
            ApiMiss::Api(ApiError::Name(_)) => {
                "look at what the runtime passes as K8S_POD_NAME and K8S_POD_NAMESPACE"
            }
            ApiMiss::Api(_) => {
                "look whether the node agent runs on this node and whether the node reaches the API server"
            }
        }
    }

    fn nobody_listens(&self) -> bool {
        matches!(self.agent, AgentMiss::Failed(AgentError::Absent))
    }
}

/// A question that the agent works on, while its caller has other things to do.
pub struct Asked<'w>(Result<Box<dyn PendingAnswer + 'w>, AgentError>);

/// Asks the agent.
pub fn ask<'w>(call: &Call<'w>, conf: &NetConf, key: &PodKey, patience: &Patience) -> Asked<'w> {
    if !conf.knows_agent() {
        return Asked(Err(AgentError::Absent));
    }
    // Agents of any version answer by name what they remember; only what is read now is sure to be this pod.
    if key.uid.is_empty() {
        return Asked(Err(AgentError::NoUid));
    }
    Asked(call.agent.send(&conf.agent_socket(), RequestKind::Pod(key.clone()), patience.agent))
}

/// The agent's answer, else the API server's.
///
/// # Errors
/// When neither told about the very pod of `key`.
pub fn facts(
    call: &mut Call<'_>,
    conf: &NetConf,
    key: &PodKey,
    asked: Asked<'_>,
    patience: &Patience,
) -> Result<(PodFacts, Teller), FactsError> {
    let agent = match from_agent(asked, key) {
        Ok(pod) => return Ok((pod, Teller::Agent)),
        Err(miss) => miss,
    };
    match agent {
        AgentMiss::Failed(AgentError::Absent) => call.log.debug("no agent; asking the API server", &[]),
        AgentMiss::Failed(AgentError::NoUid) => {
            call.log.debug("no K8S_POD_UID from the runtime; asking the API server", &[]);
        }
        _ => call.log.warn("the agent did not help; asking the API server", &[("reason", &agent)]),
    }
    match from_api(call, conf, key, patience) {
        Ok(pod) => Ok((pod, Teller::ApiServer)),
        Err(api) => Err(FactsError { agent, api }),
    }
}

fn from_agent(asked: Asked<'_>, key: &PodKey) -> Result<PodFacts, AgentMiss> {
    match asked.0?.wait()? {
        Response::Found { pod } if api::is_pod(&pod, key) && pod.has_uid(&key.uid) => {
            if redirect::lacks_pod_context(&pod) {
                Err(AgentMiss::NoContext)
            } else {
                Ok(*pod)
            }
        }
        Response::Found { .. } => Err(AgentMiss::OtherPod),
        Response::Unknown | Response::Noted | Response::Unsupported => Err(AgentMiss::Unknown),
    }
}

fn from_api(call: &Call<'_>, conf: &NetConf, key: &PodKey, patience: &Patience) -> Result<PodFacts, ApiMiss> {
    let path = conf.kubeconfig();
    let endpoint = match kubeconfig::load(&path) {
        Ok(endpoint) => endpoint,
        Err(error) => return Err(ApiMiss::Kubeconfig { path, error }),
    };
    let mut connection = call.api.open(&endpoint).map_err(ApiError::Unusable)?;
    Ok(api::pod(connection.as_mut(), call.clock, key, patience)?)
}
