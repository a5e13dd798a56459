// SPDX-License-Identifier: Apache-2.0
//! The API server that embedded nodes belong to: their own, or one that was there before them.

use std::fmt;
use std::sync::Arc;

use apiserver::ApiServer;
use cluster::News;
use front::Upstream;
use kube::Client;
use rustls::ServerConfig;

/// An API server that is there, with its controllers and scheduler. Who joins it may do everything there.
#[derive(Clone)]
pub struct Joined {
    pub client: Client,
    /// The same, for the front before it.
    pub upstream: Upstream,
    /// The server's side of TLS, for that front.
    pub tls: Arc<ServerConfig>,
    /// Certificate of its authority, as PEM.
    pub ca: String,
    /// Waits for its changes.
    pub news: Arc<dyn Fn() -> Box<dyn News> + Send + Sync>,
}

impl fmt::Debug for Joined {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Joined").finish_non_exhaustive()
    }
}

/// What a node knows of its API server.
#[derive(Clone)]
pub struct Home {
    pub(crate) client: Client,
    /// Certificate of its authority, as PEM.
    pub(crate) ca: String,
    /// The server itself, if it is the lab's: for what nobody can ask a real one.
    pub(crate) own: Option<ApiServer>,
}

impl fmt::Debug for Home {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Home").field("own", &self.own).finish_non_exhaustive()
    }
}

impl From<&ApiServer> for Home {
    fn from(own: &ApiServer) -> Self {
        Self { client: own.client(), ca: own.ca_pem().to_owned(), own: Some(own.clone()) }
    }
}

impl From<&Joined> for Home {
    fn from(there: &Joined) -> Self {
        Self { client: there.client.clone(), ca: there.ca.clone(), own: None }
    }
}
