// SPDX-License-Identifier: Apache-2.0
//! An embedded control plane: API server, controllers, scheduler. Embedded nodes join it, and so may real ones.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use apiserver::{ApiServer, ServerOptions};
use cluster::Chaos;
use tokio::task::JoinHandle;

use crate::controllers;
use crate::error::Error;
use crate::informer::Informer;
use crate::options::{SERVICE, SERVICE_V6};
use crate::scheduling;

/// First backoff of Jobs where pods have none: a real one has 10 s, forty times as much.
pub const JOB_BACKOFF: Duration = Duration::from_millis(250);

/// A control plane; it ends with this value.
pub struct ControlPlane {
    api: ApiServer,
    tasks: Vec<JoinHandle<()>>,
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("ControlPlane").field(&self.api).finish()
    }
}

impl ControlPlane {
    /// An API server with the first namespaces, reached under these names as well. Nobody follows its objects yet.
    ///
    /// # Errors
    /// Its certificates cannot be made.
    pub fn new(names: &[&str]) -> Result<Self, Error> {
        let mut options = ServerOptions::default();
        options.names.extend([&[SERVICE.0, SERVICE_V6], names].concat().into_iter().map(str::to_owned));
        let api = ApiServer::new(options).map_err(|error| Error::Missing(format!("API server: {error}")))?;
        for name in ["default", "kube-system"] {
            let made = api.create_namespace(name, &BTreeMap::new());
            made.map_err(|error| Error::Missing(format!("initial namespace: {error}")))?;
        }
        Ok(Self { api, tasks: Vec::new() })
    }

    #[must_use]
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// Starts controllers and scheduler.
    pub fn follow(&mut self, job_backoff: Duration, chaos: &Chaos) {
        let (api, changes) = (self.api.clone(), self.api.subscribe());
        let informer = Informer::Own(self.api.clone(), changes.clone());
        self.tasks.extend([
            tokio::spawn(async move { api.follow_deletions().await }),
            tokio::spawn(controllers::run(self.api.clone(), changes, job_backoff, chaos.clone())),
            tokio::spawn(scheduling::run(self.api.clone(), informer)),
        ]);
    }

    /// Ends controllers and scheduler: nobody gives a node another pod.
    pub async fn stop(&mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
            let _aborted = task.await;
        }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
