// SPDX-License-Identifier: Apache-2.0
//! The first process of a node of real components, in namespaces of its own: mounts what a node has of its own, then reaps.

use std::fs;
use std::io::ErrorKind;
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
/// Configuration of the machine's own runtimes, networks and kubelet: a node has none of it.
const OF_MACHINE: [&str; 5] = ["cni", "containerd", "containers", "crio", "kubernetes"];
/// Directories that plugins and runtimes expect.
const EXPECTED: [&str; 4] = ["/etc/cni/net.d", "/opt/cni/bin", "/run/lock", "/run/netns"];
/// Settings of the whole machine that a kubelet writes at its start (`setupKernelTunables` of `pkg/kubelet/cm/container_manager_linux.go`).
const TUNABLES: [&str; 6] = [
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/keys/root_maxbytes",
];

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
    // After a reboot those are there that the node made itself.
    let foreign: Vec<_> = OF_MACHINE.into_iter().filter(|name| !upper.join(name).exists()).collect();
    let layers = format!("lowerdir=/etc,upperdir={},workdir={}", upper.display(), work.display());
    mount(Some("node"), "/etc", Some("overlay"), MsFlags::empty(), Some(layers.as_str()))
        .context("cannot mount /etc")?;
    for name in foreign {
        let hidden = Path::new("/etc").join(name);
        match fs::remove_dir_all(&hidden) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot hide {}", hidden.display()));
            }
            _ => {}
        }
    }
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
    let copies = Path::new("/run/kernel");
    fs::create_dir(copies).with_context(|| format!("cannot make {}", copies.display()))?;
    // Of this boot of the node: what a kubelet tells its API server.
    cover(Path::new("/proc/sys/kernel/random/boot_id"), Path::new("/proc/sys/kernel/random/uuid"), copies)?;
    for setting in TUNABLES.map(Path::new) {
        cover(setting, setting, copies)?;
    }
    for directory in EXPECTED {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {directory}"))?;
    }
    Ok(())
}

/// Covers a file of the kernel with a copy of `value` in a directory: who writes it changes the copy. A kernel without it needs none.
fn cover(file: &Path, value: &Path, copies: &Path) -> anyhow::Result<()> {
    let none = None::<&str>;
    let name = file.display().to_string().trim_start_matches('/').replace('/', ".");
    let copy = copies.join(name);
    match fs::copy(value, &copy) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        copied => copied.with_context(|| format!("cannot copy {}", value.display()))?,
    };
    mount(Some(&copy), file, none, MsFlags::MS_BIND, none)
        .with_context(|| format!("cannot mount {}", file.display()))
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

#[cfg(test)]
mod tests {
    use nix::sched::{CloneFlags, unshare};
    use nix::unistd::geteuid;

    use super::*;

    #[test]
    fn a_setting_that_is_written_on_a_node_is_the_nodes_alone() {
        if !geteuid().is_root() {
            return;
        }
        let machine = tempfile::tempdir().unwrap();
        let (setting, copies) = (machine.path().join("panic"), machine.path().join("copies"));
        fs::write(&setting, "0\n").unwrap();
        fs::create_dir(&copies).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNS).unwrap();
                let none = None::<&str>;
                mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
                cover(&setting, &setting, &copies).unwrap();
                assert_eq!(fs::read_to_string(&setting).unwrap(), "0\n");
                fs::write(&setting, "10").unwrap();
                assert_eq!(fs::read_to_string(&setting).unwrap(), "10", "the node reads what it wrote");
                cover(&machine.path().join("none"), &machine.path().join("none"), &copies).unwrap();
            });
        });
        assert_eq!(fs::read_to_string(&setting).unwrap(), "0\n");
    }
}
