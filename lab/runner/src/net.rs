// SPDX-License-Identifier: Apache-2.0
//! The sandbox' own network: nothing but `lo`.

use anyhow::Context as _;
use futures::TryStreamExt as _;
use rtnetlink::{LinkUnspec, new_connection};

/// Brings `lo` up in this process' network namespace: the lab's API server listens there.
pub async fn raise_loopback() -> anyhow::Result<()> {
    let (connection, handle, _) = new_connection().context("no netlink socket")?;
    let connection = tokio::spawn(connection);
    let mut links = handle.link().get().match_name("lo".to_owned()).execute();
    let lo = links.try_next().await?.context("there is no lo")?;
    handle.link().change(LinkUnspec::new_with_index(lo.header.index).up().build()).execute().await?;
    connection.abort();
    Ok(())
}
