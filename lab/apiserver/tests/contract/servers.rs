// SPDX-License-Identifier: Apache-2.0
//! The servers: the embedded one in process, and a real one with etcd and controllers, in the namespaces of the test's process.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};

use apiserver::{ApiServer, ServerOptions};
use cluster::choice::Choice;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use real::control::{self, Control};
use real::{Components, Programs};
use serde_json::{Value, from_str, from_value};

use crate::play::Server;

/// Recipes of real components.
const MODULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/components");

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// An embedded server that has been there for a while, with the controllers that follow deletions.
pub(crate) fn embedded() -> Server {
    let server = ApiServer::new(ServerOptions::default()).unwrap();
    for namespace in ["default", "kube-system"] {
        server.create_namespace(namespace, &BTreeMap::new()).unwrap();
    }
    server.compact();
    let clients = Server { admin: server.client(), nobody: server.anonymous_client() };
    tokio::spawn(async move { server.follow_deletions().await });
    clients
}

/// A real server, of the components in the cache.
pub(crate) async fn real(directory: &Path) -> (Server, Control) {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = Components::cache_of(variable("XDG_CACHE_HOME"), variable("HOME")).unwrap();
    let components = Components::read(Path::new(MODULES), &cache).unwrap();
    let programs = Programs::find(&components, Choice::default(), Path::new("")).unwrap();
    let control = Control::start(&programs, directory, directory).await.unwrap();
    let mut kubeconfig: Value = from_str(&control.kubeconfig(&control::server()).unwrap()).unwrap();
    let admin = client(&kubeconfig).await;
    kubeconfig["users"][0]["user"] = Value::Object(serde_json::Map::new());
    (Server { admin, nobody: client(&kubeconfig).await }, control)
}

async fn client(kubeconfig: &Value) -> Client {
    let kubeconfig: Kubeconfig = from_value(kubeconfig.clone()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    // An answer is an answer, whatever its code.
    config.default_retry = false;
    Client::try_from(config).unwrap()
}
