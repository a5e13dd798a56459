// SPDX-License-Identifier: Apache-2.0
//! One lease (`coordination.k8s.io/v1`): read, made, replaced.

use std::time::Duration;

use http::{Method, Request};
use serde_json::Value;

use super::{ApiError, Client};

/// A lease by its name.
#[derive(Debug, Clone)]
pub struct LeaseAt {
    client: Client,
    pub namespace: String,
    pub name: String,
}

impl LeaseAt {
    #[must_use]
    pub fn new(client: Client, namespace: String, name: String) -> Self {
        Self { client, namespace, name }
    }

    /// The lease; `None` if it does not exist.
    ///
    /// # Errors
    /// The API server does not answer it.
    pub async fn read(&self, limit: Duration) -> Result<Option<Value>, ApiError> {
        match self.client.get(&format!("{}/{}", self.path(), self.name), limit).await {
            Err(ApiError::NotFound(_)) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Creates the lease.
    ///
    /// # Errors
    /// [`ApiError::Conflict`] if it exists.
    pub async fn create(&self, lease: &Value, limit: Duration) -> Result<(), ApiError> {
        self.write(Method::POST, self.path(), lease, limit).await
    }

    /// Replaces the lease.
    ///
    /// # Errors
    /// [`ApiError::Conflict`] if its resource version is not that of `lease`.
    pub async fn replace(&self, lease: &Value, limit: Duration) -> Result<(), ApiError> {
        self.write(Method::PUT, format!("{}/{}", self.path(), self.name), lease, limit).await
    }

    fn path(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    async fn write(
        &self,
        method: Method,
        uri: String,
        lease: &Value,
        limit: Duration,
    ) -> Result<(), ApiError> {
        let request = Request::builder().method(method).uri(uri).header("Content-Type", "application/json");
        let request = request.body(lease.to_string().into_bytes());
        let request = request.map_err(|error| ApiError::Malformed(error.to_string()))?;
        self.client.request::<Value>(request, limit).await.map(drop)
    }
}
