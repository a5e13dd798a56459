// SPDX-License-Identifier: Apache-2.0
//! What each node of a cluster can do, as its hand sees it: kernel, IPv6, users. Whether that suffices the runner decides.

use std::path::Path;

use cluster::hand::Hand as _;
use futures::future::join_all;
use hand::Client as Hand;

use crate::session::Session;

/// A node as its hand sees it. An error says what could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Name of the node.
    pub node: String,
    /// Release of the kernel, if the node's network has netfilter.
    pub kernel: Result<String, String>,
    /// `/proc/self/net/if_inet6`.
    pub inet6: Result<String, String>,
    /// `/proc/self/uid_map`.
    pub users: Result<String, String>,
}

impl Session {
    /// Looks at all nodes.
    pub async fn look(&self) -> Vec<Seen> {
        join_all(self.nodes.iter().map(|node| async move {
            match self.hand(node) {
                Ok(hand) => look(node, &hand).await,
                Err(error) => {
                    let failed = || Err(error.to_string());
                    Seen { node: node.clone(), kernel: failed(), inet6: failed(), users: failed() }
                }
            }
        }))
        .await
    }
}

async fn look(node: &str, hand: &Hand) -> Seen {
    Seen {
        node: node.to_owned(),
        kernel: kernel(hand).await,
        inet6: text(hand, "/proc/self/net/if_inet6").await,
        users: text(hand, "/proc/self/uid_map").await,
    }
}

async fn kernel(hand: &Hand) -> Result<String, String> {
    hand.list(Path::new("/proc/self/net/netfilter")).await.map_err(|error| error.to_string())?;
    text(hand, "/proc/sys/kernel/osrelease").await
}

async fn text(hand: &Hand, path: &str) -> Result<String, String> {
    let bytes = hand.read(Path::new(path)).await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}
