// SPDX-License-Identifier: Apache-2.0
//! Requests about containers, passed on to their kubelet.

use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use hyper::upgrade::OnUpgrade;
use listen::Closing;

use crate::answer::Reply;
use crate::error::ApiError;
use crate::exec::{self, Handshake};
use crate::kubelets::{ExecRequest, Kubelets, LogRequest};
use crate::route::Query;
use crate::shared::Shared;
use crate::store::Key;

impl Shared {
    pub(crate) async fn logs(&self, key: &Key, query: &Query) -> Result<Reply, ApiError> {
        let pod = self.lock().store.get(key)?;
        let Some(wanted) = LogRequest::of(key, &pod, query, self.now())? else {
            return Ok(Reply::Whole(StatusCode::OK, Vec::new()));
        };
        let refused = |error: crate::kubelets::KubeletError| ApiError::BadRequest(error.to_string());
        let kubelets = self.reachable(&wanted.of.node)?;
        let lines = kubelets.logs(wanted).await.map_err(refused)?;
        Ok(Reply::Text(lines))
    }

    pub(crate) fn exec(
        &self,
        key: &Key,
        query: &Query,
        parts: &Parts,
        upgrade: Option<OnUpgrade>,
    ) -> Result<Reply, ApiError> {
        let pod = self.lock().store.get(key)?;
        let wanted = ExecRequest::of(key, &pod, query)?;
        let handshake = Handshake::of(&parts.headers)?;
        let in_process =
            || ApiError::BadRequest("a client in process has no connection to upgrade".to_owned());
        let upgrade = upgrade.ok_or_else(in_process)?;
        let kubelets = self.reachable(&wanted.of.node)?;
        let closing = parts.extensions.get::<Closing>().cloned();
        let started = kubelets.exec(wanted.clone());
        tokio::spawn(exec::session(upgrade, handshake.protocol, wanted, started, closing));
        Ok(Reply::Switch(handshake))
    }

    /// The kubelets; without any, what the real server says of a node that it does not reach.
    fn reachable(&self, node: &str) -> Result<Arc<dyn Kubelets>, ApiError> {
        let refused = || ApiError::Internal(format!("dial tcp: lookup {node}: no such host"));
        self.kubelets().get().cloned().ok_or_else(refused)
    }
}
