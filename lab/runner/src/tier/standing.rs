// SPDX-License-Identifier: Apache-2.0
//! A cluster that stays, for `cnilab up`.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use apiserver::ServerHandle;
use cluster::{BASE_PLUGIN, Cluster, Installed, Issuer as _, RuntimeProfile};
use kubelet::{ClusterOptions, Images, NetnsCluster};

use crate::cli::RuntimeName;
use crate::istiod::{self, FailurePolicy};
use crate::plan::UpPlan;
use crate::tier::started::Started;

/// Files of the cluster: in the sandbox' own `/run`.
const DIRECTORY: &str = "/run/cnilab/up";

/// First backoff of a kubelet, as of a real one.
const BACK_OFF: Duration = Duration::from_secs(10);

/// A second of the containers' probes: who waits at a terminal gains nothing by a real one.
const PROBE_SECOND: Duration = Duration::from_millis(100);

/// The first that has STATUS and GC.
const CNI_VERSION: &str = "1.1.0";

/// Images of the nodes, by the last part of their names: the lab's programs, the node agent, what an injected pod has.
const IMAGES: [&str; 4] = ["workload", "install-cni", "proxyv2", "pause"];

/// A cluster, and the socket of its API.
pub enum Standing {
    Embedded(Box<NetnsCluster>, ServerHandle),
    Real(Box<Started>),
}

impl Standing {
    /// Starts a cluster, whose API answers on the listener.
    ///
    /// # Errors
    /// The machine or the listener is not fit for it.
    pub async fn start(plan: &UpPlan, listener: TcpListener) -> anyhow::Result<Self> {
        if let Some(of) = &plan.real {
            let started = Started::start(of, &plan.workload, &plan.sut).await?;
            tokio::spawn(real::cluster::forward(listener));
            if !plan.args.bare {
                started.deploy(&plan.sut).await?;
            }
            return Ok(Self::Real(Box::new(started)));
        }
        let cluster = NetnsCluster::start(options(plan)).await.context("cannot start the cluster")?;
        let served = cluster.api()?.serve_tls(listener).context("cannot serve the API")?;
        inject(&cluster)?;
        Ok(Self::Embedded(Box::new(cluster), served))
    }

    /// An administrator's, for the API at this address.
    ///
    /// # Errors
    /// No key can be made.
    pub fn kubeconfig(&self, server: &str) -> anyhow::Result<String> {
        Ok(match self {
            Self::Embedded(cluster, _) => cluster.api()?.admin_kubeconfig(server),
            Self::Real(cluster) => cluster.kubeconfig_at(server)?,
        })
    }

    /// Ends everything; before that, writes the calls of the network's first plugin to `record`. Returns what could not be taken down.
    ///
    /// # Errors
    /// A directory stays.
    pub async fn stop(self, record: Option<&Path>) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Embedded(cluster, served) => {
                if let Some(record) = record {
                    let calls = recorded(&cluster)?;
                    fs::write(record, calls).with_context(|| format!("cannot write {}", record.display()))?;
                }
                served.stop().await;
                let left = cluster.stop().await.context("cannot end the cluster")?;
                Ok([left.networks, left.faults].concat())
            }
            // Its namespaces end with this process, and everything in them.
            Self::Real(_) => Ok(Vec::new()),
        }
    }
}

/// Calls of the network's first plugin, a line of JSON each.
fn recorded(cluster: &NetnsCluster) -> anyhow::Result<String> {
    let mut lines = String::new();
    for node in Cluster::nodes(cluster) {
        let calls = node.cni_calls()?.into_iter().map(|(call, _)| call);
        lines
            .extend(calls.filter(|call| call.plugin == BASE_PLUGIN).map(|call| format!("{}\n", call.told())));
    }
    Ok(lines)
}

/// Pods of labelled namespaces are injected.
fn inject(cluster: &NetnsCluster) -> anyhow::Result<()> {
    let api = cluster.api()?;
    let authority = api.authority();
    let identity = authority.issue(&istiod::names(), None).context("no certificate for istiod")?;
    let mut objects = istiod::reached(&api.ca_pem(), FailurePolicy::Fail);
    objects.push(istiod::deployment(&identity));
    for object in objects {
        api.upsert(object).context("cannot install istiod")?;
    }
    Ok(())
}

fn options(plan: &UpPlan) -> ClusterOptions {
    let mut options = ClusterOptions::new(Path::new(DIRECTORY), &plan.workload, &plan.sut.dir);
    options.node.count = Some(plan.args.nodes.into());
    options.node.installed = if plan.args.bare { Installed::ByAgent } else { Installed::ByLab };
    options.back_off = Some(BACK_OFF);
    options.images = Images::Only(IMAGES.to_vec());
    options.probe_second = PROBE_SECOND;
    options.node.cni_version = Some(CNI_VERSION.to_owned());
    options.node.runtime = Some(match plan.args.runtime {
        RuntimeName::Containerd => &RuntimeProfile::CONTAINERD_2,
        RuntimeName::Crio => &RuntimeProfile::CRI_O,
    });
    options
}
