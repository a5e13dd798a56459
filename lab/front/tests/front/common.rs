// SPDX-License-Identifier: Apache-2.0
//! Shared parts of the tests: a server with a front before it, pods, and waits with a deadline.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use apiserver::{Account, ApiServer, Gates, Grant, ServerOptions, Verb};
use front::{Proxy, Upstream};
use http::header::AUTHORIZATION;
use k8s_openapi::api::core::v1::Pod;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use listen::ServerHandle;
use serde_json::{Value, json};

/// A service account that may do everything with pods, and with nothing else.
pub(crate) const USER: &str = "system:serviceaccount:shop:default";

/// A server with the namespace `shop` and a front before it.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) front: Proxy,
    /// Token of [`USER`].
    pub(crate) token: String,
    _behind: Option<ServerHandle>,
}

impl World {
    /// The front calls the server.
    pub(crate) fn in_process() -> Self {
        Self::with(Gates::default())
    }

    pub(crate) fn with(gates: Gates) -> Self {
        let server = server(gates);
        let upstream = Upstream::new(server.anonymous_client());
        Self::new(server, upstream, None)
    }

    /// The front reaches the server over TLS and knows its address, its authority and a token of the administrator.
    pub(crate) async fn over_the_network() -> Self {
        let server = server(Gates::default());
        let behind = server.serve_tls(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let upstream = stranger(&server, behind.address()).await;
        Self::new(server, upstream, Some(behind))
    }

    /// The same world twice: what holds of one holds of the other.
    pub(crate) async fn both() -> [Self; 2] {
        [Self::in_process(), Self::over_the_network().await]
    }

    fn new(server: ApiServer, upstream: Upstream, behind: Option<ServerHandle>) -> Self {
        let account = Account { namespace: "shop".to_owned(), name: "default".to_owned() };
        server
            .allow(&account, [Verb::Get, Verb::List, Verb::Watch].map(|verb| Grant::new(verb, "pods")))
            .unwrap();
        let token = server.token(&account, None, Duration::from_secs(3600)).unwrap();
        Self { server, front: Proxy::new(upstream, vec!["127.0.0.1".to_owned()]), token, _behind: behind }
    }

    /// A client of the front.
    pub(crate) fn client(&self) -> Client {
        self.client_with(&self.token)
    }

    pub(crate) fn client_with(&self, token: &str) -> Client {
        let (front, header) =
            (self.front.clone(), format!("Bearer {token}").parse::<http::HeaderValue>().unwrap());
        let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
            request.headers_mut().insert(AUTHORIZATION, header.clone());
            let front = front.clone();
            async move { front.answer(request).await }
        });
        Client::new(service, "default")
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client(), "shop")
    }
}

/// Whoever answers for a server at this address, known by a kubeconfig alone.
pub(crate) async fn stranger(server: &ApiServer, address: SocketAddr) -> Upstream {
    let kubeconfig = server.admin_kubeconfig(&format!("https://{address}"));
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Upstream::remote(&config).unwrap()
}

fn server(gates: Gates) -> ApiServer {
    let server = ApiServer::new(ServerOptions { seed: 7, gates, ..ServerOptions::default() }).unwrap();
    server.create_namespace("shop", &BTreeMap::new()).unwrap();
    server.upsert(pod("cart")).unwrap();
    server
}

/// A pod of `shop`.
pub(crate) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"},
           "spec": {"containers": [{"name": "app", "image": "app"}]}})
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
