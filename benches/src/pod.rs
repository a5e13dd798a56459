// SPDX-License-Identifier: Apache-2.0
//! A pod to set up: a fresh network namespace with addresses of both families. Nothing is mounted or named, so nothing can
//! stay behind: the namespace lives as long as the file that holds it.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::thread;

use anyhow::{Context, Result, anyhow};
use nix::sched::{CloneFlags, unshare};

/// Index of `lo`, in every namespace.
const LO: u32 = 1;

/// A fresh pod namespace.
#[derive(Debug)]
pub struct PodNamespace {
    file: File,
}

impl PodNamespace {
    /// Makes one: `lo` up, one IPv4 and one IPv6 address.
    pub fn create() -> Result<Self> {
        let file = thread::spawn(|| -> Result<File> {
            unshare(CloneFlags::CLONE_NEWNET).context("unshare a network namespace (needs root)")?;
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(addresses())?;
            Ok(File::open("/proc/thread-self/ns/net")?)
        })
        .join()
        .map_err(|_| anyhow!("the namespace's thread panicked"))??;
        Ok(Self { file })
    }

    /// Path that any process can open while this value lives.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Runs `work` on a thread that is inside.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| -> Result<T> {
                nix::sched::setns(&self.file, CloneFlags::CLONE_NEWNET)?;
                Ok(work())
            });
            inside.join().map_err(|_| anyhow!("the namespace's thread panicked"))?
        })
    }
}

/// Brings `lo` of the calling thread's namespace up.
pub fn lo_up() -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        let served = tokio::spawn(connection);
        handle.link().set(rtnetlink::LinkUnspec::new_with_index(LO).up().build()).execute().await?;
        served.abort();
        Ok(())
    })
}

async fn addresses() -> Result<()> {
    let (connection, handle, _) = rtnetlink::new_connection()?;
    let served = tokio::spawn(connection);
    handle.link().set(rtnetlink::LinkUnspec::new_with_index(LO).up().build()).execute().await?;
    handle.address().add(LO, IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)), 24).execute().await?;
    handle.address().add(LO, IpAddr::V6(Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 2)), 64).execute().await?;
    served.abort();
    Ok(())
}
