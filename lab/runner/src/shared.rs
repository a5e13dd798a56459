// SPDX-License-Identifier: Apache-2.0
//! The cluster that all scenarios of a run are played in, started by the run or somebody's.

use std::time::Duration;

use anyhow::Context as _;

use crate::board;
use crate::cli::RunArgs;
use crate::plan::Plan;
use crate::tier::started::Started;
use crate::tier::{self, Access, EXCHANGE, Session, SessionOptions, Whole};

/// Name of a run, unique among those of a cluster.
pub(crate) fn name(plan: &Plan) -> String {
    format!("{}-{}", plan.seed_text(), std::process::id())
}

/// Deadline of what a run makes in a cluster: its image may have to be pulled.
pub(crate) const IN_A_CLUSTER: Duration = Duration::from_secs(120);

/// A cluster that all scenarios run in.
pub(crate) struct Shared {
    pub(crate) session: Session,
    pub(crate) tier: &'static str,
    /// Where the run has started it: it ends with this.
    pub(crate) started: Option<Started>,
}

impl Shared {
    /// Starts it, or connects to somebody's; none where each scenario has a cluster of its own.
    pub(crate) async fn stand(plan: &Plan) -> anyhow::Result<Option<Self>> {
        let started = match plan.real.as_ref().filter(|real| real.asked.nodes > 0) {
            Some(real) => Some(Started::start(real, &plan.workload, &plan.sut).await?),
            None => None,
        };
        let (access, tier) = match (&started, access(&plan.args)) {
            (Some(started), _) => {
                (Access { kubeconfig: started.kubeconfig.clone(), may_execute: false }, tier::NODE)
            }
            (None, Some(access)) => (access, tier::KUBECONFIG),
            (None, None) => return Ok(None),
        };
        let options = SessionOptions {
            access,
            whole: plan.args.agent_image.as_deref().map(|agent| Whole { proxy: beside(agent) }),
            image: plan.args.image.clone().context("no image of the lab's pods is named")?,
            run: name(plan),
            tell: board::say,
            deadline: IN_A_CLUSTER,
            exchange: EXCHANGE,
        };
        let session = Session::open(options, started.as_ref().map(Started::owned)).await?;
        Ok(Some(Self { session, tier, started }))
    }
}

/// Access to somebody's cluster, if the run is to be played there.
pub(crate) fn access(args: &RunArgs) -> Option<Access> {
    let kubeconfig = args.kubeconfig.clone()?;
    Some(Access { kubeconfig, may_execute: args.kubeconfig_exec })
}

/// Image of the proxy of a release: a mesh's images have a registry and a tag in common.
fn beside(agent: &str) -> String {
    let (registry, name) = agent.rsplit_once('/').unwrap_or_default();
    let tag = name.split_once(':').map(|(_, tag)| format!(":{tag}")).unwrap_or_default();
    format!("{registry}/proxyv2{tag}")
}
