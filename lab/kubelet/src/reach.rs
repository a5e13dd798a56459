// SPDX-License-Identifier: Apache-2.0
//! Connections of the control plane into the cluster: from the node that has the pod of an address, or else from the first.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use apiserver::network::Network;
use futures::future::{BoxFuture, FutureExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::netns;
use crate::node::NetnsNode;

/// The nodes of a cluster, for its API server. They are not kept by it.
#[derive(Debug)]
pub struct NodeNetwork(Vec<Weak<NetnsNode>>);

impl NodeNetwork {
    #[must_use]
    pub fn new(nodes: &[Arc<NetnsNode>]) -> Self {
        Self(nodes.iter().map(Arc::downgrade).collect())
    }

    fn nearest(&self, address: IpAddr) -> Option<Arc<NetnsNode>> {
        let nodes: Vec<_> = self.0.iter().filter_map(Weak::upgrade).collect();
        let has = |node: &&Arc<NetnsNode>| {
            node.slots().iter().any(|slot| slot.shown().addresses.contains(&address))
        };
        nodes.iter().find(has).or_else(|| nodes.first()).cloned()
    }
}

impl Network for NodeNetwork {
    fn connect(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        let node = self.nearest(to.ip());
        async move {
            let node = node.ok_or(io::ErrorKind::NetworkUnreachable)?;
            let make = move || if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
            let socket = netns::inside(node.netns.path(), make).await.map_err(io::Error::other)??;
            drop(node);
            socket.connect(to).await
        }
        .boxed()
    }
}
