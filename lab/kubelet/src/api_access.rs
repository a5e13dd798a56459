// SPDX-License-Identifier: Apache-2.0
//! The API server that embedded nodes belong to: their own, or one that was there before them.

use std::fmt;
use std::sync::Arc;

use apiserver::ApiServer;
use async_trait::async_trait;
use cluster::{Issuer, News};
use front::Upstream;
use kube::Client;
use tokio::sync::watch;

/// An API server with its controllers and scheduler. Who has it may do everything there.
#[derive(Clone)]
pub struct ApiAccess {
    pub client: Client,
    /// The same, for the front before it.
    pub upstream: Upstream,
    /// Names and addresses that it is reached under.
    pub names: Vec<String>,
    /// Who issues its certificates.
    pub issuer: Arc<dyn Issuer>,
    /// Waits for changes of its objects.
    pub news: Arc<dyn Fn() -> Box<dyn News> + Send + Sync>,
    /// The server itself, if it is the lab's: for what nobody can ask a real one.
    pub own: Option<ApiServer>,
}

impl fmt::Debug for ApiAccess {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ApiAccess").field("own", &self.own).finish_non_exhaustive()
    }
}

impl From<&ApiServer> for ApiAccess {
    fn from(own: &ApiServer) -> Self {
        let server = own.clone();
        Self {
            client: own.client(),
            upstream: Upstream::new(own.anonymous_client()),
            names: own.names().to_vec(),
            issuer: Arc::clone(own.authority()) as Arc<dyn Issuer>,
            news: Arc::new(move || Box::new(Revisions(server.revisions()))),
            own: Some(own.clone()),
        }
    }
}

struct Revisions(watch::Receiver<u64>);

#[async_trait]
impl News for Revisions {
    async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The API server is gone, and nothing happens any more.
            std::future::pending::<()>().await;
        }
    }
}
