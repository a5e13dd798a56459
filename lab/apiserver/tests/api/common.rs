// SPDX-License-Identifier: Apache-2.0
//! Shared parts of the tests: a server with a clock of their own, pods, and waits with a deadline.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use apiserver::network::Network;
use apiserver::{ApiServer, ServerOptions, Timestamp};
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// The network of this machine.
pub(crate) struct Loopback;

impl Network for Loopback {
    fn connect(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        TcpStream::connect(to).boxed()
    }
}

/// A server with the namespace `shop`; its clock stands still until it is moved.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    clock: Arc<AtomicI64>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut ServerOptions)) -> Self {
        let clock = Arc::new(AtomicI64::new(1_700_000_000));
        let mut options = ServerOptions { seed: 7, ..ServerOptions::default() };
        let read = Arc::clone(&clock);
        options.clock = Arc::new(move || Timestamp::from_second(read.load(Ordering::Relaxed)).unwrap());
        change(&mut options);
        let server = ApiServer::new(options).unwrap();
        server
            .create_namespace("shop", &BTreeMap::from([("istio-injection".into(), "enabled".into())]))
            .unwrap();
        Self { server, clock }
    }

    pub(crate) fn pass(&self, seconds: i64) {
        self.clock.fetch_add(seconds, Ordering::Relaxed);
    }
}

/// A pod of `shop`.
pub(crate) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"},
           "spec": {"containers": [{"name": "app", "image": "app"}]}})
}

/// Definition of a namespaced kind.
pub(crate) fn definition(group: &str, version: &str, plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": version, "served": true, "storage": true}],
        },
    })
}

/// A wait with a deadline of ten seconds.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("not within ten seconds")
}

/// Code and reason of a failed call.
pub(crate) fn refusal<T>(result: kube::Result<T>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone()),
        Err(other) => panic!("failed otherwise: {other:?}"),
        Ok(_) => panic!("succeeded"),
    }
}
