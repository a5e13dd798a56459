// SPDX-License-Identifier: Apache-2.0
//! The first process of a node of real components, in namespaces of its own: mounts what a node has of its own, then reaps.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use rtnetlink::LinkUnspec;
use tokio::signal::unix::{SignalKind, signal};

use crate::line;

/// Index of `lo`: the kernel makes it first in every namespace.
const LO: u32 = 1;
/// Directories that plugins and runtimes expect.
const EXPECTED: [&str; 4] = ["/etc/cni/net.d", "/opt/cni/bin", "/run/lock", "/run/netns"];

#[derive(Debug, Clone, Args)]
pub struct NodeOptions {
    /// Host name.
    #[arg(long)]
    name: String,
    /// Where its files are that outlive a reboot.
    #[arg(long)]
    files: PathBuf,
    /// A directory that is the node's own and outlives a reboot.
    #[arg(long)]
    keep: Vec<String>,
}

/// Does it until it is killed.
pub async fn run(options: &NodeOptions) -> anyhow::Result<()> {
    let mut ended = signal(SignalKind::child()).context("cannot hear of children")?;
    furnish(&options.files, &options.keep)?;
    fs::write("/proc/sys/kernel/hostname", &options.name).context("cannot set the host name")?;
    forward()?;
    raise_loopback().await?;
    line::announce("ready node")?;
    loop {
        while matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(status) if status != WaitStatus::StillAlive)
        {
        }
        ended.recv().await;
    }
}

/// Mounts of the node. Volumes of pods propagate among them, and none beyond.
fn furnish(files: &Path, kept: &[String]) -> anyhow::Result<()> {
    let none = None::<&str>;
    for kind in [MsFlags::MS_PRIVATE, MsFlags::MS_SHARED] {
        mount(none, "/", none, MsFlags::MS_REC | kind, none).context("cannot make mounts the node's own")?;
    }
    let own = |name: &str| {
        let path = files.join(name.trim_start_matches('/'));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display())).map(|()| path)
    };
    let (upper, work) = (own("etc")?, own("work")?);
    let layers = format!("lowerdir=/etc,upperdir={},workdir={}", upper.display(), work.display());
    mount(Some("node"), "/etc", Some("overlay"), MsFlags::empty(), Some(layers.as_str()))
        .context("cannot mount /etc")?;
    for at in kept {
        let path = own(at)?;
        mount(Some(&path), at.as_str(), none, MsFlags::MS_BIND, none)
            .with_context(|| format!("cannot mount {at}"))?;
    }
    let plain = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    // The node's files may be below it: from here on they are reached by their mounts.
    mount(Some("node"), "/run", Some("tmpfs"), plain, Some("mode=0755")).context("cannot mount /run")?;
    mount(Some("proc"), "/proc", Some("proc"), plain | MsFlags::MS_NOEXEC, none)
        .context("cannot mount /proc")?;
    // Of this boot of the node: what a kubelet tells its API server.
    fs::copy("/proc/sys/kernel/random/uuid", "/run/boot-id").context("cannot make a boot ID")?;
    mount(Some("/run/boot-id"), "/proc/sys/kernel/random/boot_id", none, MsFlags::MS_BIND, none)
        .context("cannot mount the boot ID")?;
    for directory in EXPECTED {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {directory}"))?;
    }
    Ok(())
}

async fn raise_loopback() -> anyhow::Result<()> {
    let (connection, handle, _) = rtnetlink::new_connection().context("no netlink socket")?;
    let connection = tokio::spawn(connection);
    let up = LinkUnspec::new_with_index(LO).up().build();
    handle.link().change(up).execute().await.context("cannot bring lo up")?;
    connection.abort();
    Ok(())
}

/// A node forwards between its pods.
fn forward() -> anyhow::Result<()> {
    for path in ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"] {
        match fs::write(path, "1") {
            Err(error) if error.raw_os_error() != Some(Errno::ENOENT as i32) => {
                return Err(error).with_context(|| format!("cannot write {path}"));
            }
            // Without IPv6 there is no such setting.
            _ => {}
        }
    }
    Ok(())
}
