// SPDX-License-Identifier: Apache-2.0
//! What the programs of a node see: the node's directories, the machine's programs and devices, the node's processes, and nothing of the lab.
//! Plugins, containers without a root of their own and the hand have it. A product among them finds no features, no report, no other node
//! and no process of the lab's own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::mount::MsFlags;
use nix::sched::{CloneFlags, setns};
use parking_lot::Mutex;

use crate::error::Error;
use crate::netns;
use crate::pids::Pids;
use crate::rootfs::{self, Mount, Propagation};

/// What programs read in the machine's `/etc`: users, names, certificates, and where the system's alternatives lead to.
const SETTINGS: [&str; 14] = [
    "alternatives",
    "ethertypes",
    "group",
    "host.conf",
    "iproute2",
    "ld.so.cache",
    "localtime",
    "nsswitch.conf",
    "passwd",
    "pki",
    "protocols",
    "services",
    "ssl",
    "xtables",
];

/// Files that have one path in each view, and are one file: the lock of the iptables tools, which have its path compiled in.
const COMMON: &str = "/run/xtables.lock";

/// What is shown to the programs of a node.
#[derive(Debug, Clone)]
pub struct Shown {
    /// An empty directory to build it on.
    pub base: PathBuf,
    /// The node's own directory, at its path in the lab.
    pub directory: PathBuf,
    /// Files and directories of the lab, at their paths, read-only.
    pub programs: Vec<PathBuf>,
    /// Directories of the node, at the paths that the node has for them.
    pub mounts: Vec<Mount>,
}

/// The present view of a node, which a reboot replaces.
#[derive(Debug, Clone)]
pub struct Viewed(Arc<Mutex<Arc<View>>>);

impl Viewed {
    #[must_use]
    pub fn new(view: View) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(view))))
    }

    /// The view for programs that start now.
    #[must_use]
    pub fn now(&self) -> Arc<View> {
        Arc::clone(&self.0.lock())
    }

    /// Replaces it for programs that start from now on.
    pub fn replace(&self, view: View) {
        *self.0.lock() = Arc::new(view);
    }
}

/// A mount namespace and the processes that are seen in it.
#[derive(Debug)]
pub struct View {
    pids: Arc<Pids>,
    mounts: File,
    /// Mounts that programs may write to.
    written: Vec<PathBuf>,
}

impl View {
    /// Makes it, for programs in the network namespace at `netns`.
    ///
    /// # Errors
    /// The kernel refuses a mount.
    pub async fn of(shown: Shown, netns: &Path, pids: Pids) -> Result<Self, Error> {
        netns::inside(netns, move || {
            rootfs::separate()?;
            // Of this thread: the `/proc` that it is going to see does not have it.
            let own = Path::new("/proc/thread-self/ns/mnt");
            let mounts = File::open(own).map_err(Error::file("open", own))?;
            let pids = Arc::new(pids);
            lay_out(&shown, &pids)?;
            rootfs::become_root(&shown.base)?;
            let written = ["/", "/tmp"].map(PathBuf::from).into_iter().chain([shown.directory]);
            let written = written.chain(shown.mounts.into_iter().map(|mount| mount.at)).collect();
            Ok(Self { pids, mounts, written })
        })
        .await?
    }

    /// The node's processes.
    #[must_use]
    pub fn pids(&self) -> Arc<Pids> {
        Arc::clone(&self.pids)
    }

    /// Mounts that programs may write to.
    pub(crate) fn written(&self) -> &[PathBuf] {
        &self.written
    }

    /// Gives it to this thread, which shares its directory with no other, and to what it starts.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        setns(&self.mounts, CloneFlags::CLONE_NEWNS)
            .map_err(|errno| Error::system("enter a mount namespace")(errno.into()))
    }
}

fn lay_out(shown: &Shown, pids: &Pids) -> Result<(), Error> {
    let base = &shown.base;
    rootfs::make_directory(base)?;
    rootfs::plain(Some("node"), base, "tmpfs", MsFlags::MS_NODEV, Some("mode=0755"))?;
    rootfs::furnish(base)?;
    rootfs::make_directory(&base.join("opt"))?;
    rootfs::plain(Some("node"), &base.join("tmp"), "tmpfs", MsFlags::MS_NODEV, Some("mode=1777"))?;
    for name in SETTINGS {
        show(&Path::new("/etc").join(name), base, true)?;
    }
    let resolv_conf = base.join("etc/resolv.conf");
    let content = fs::read("/etc/resolv.conf").unwrap_or_default();
    fs::write(&resolv_conf, content).map_err(Error::file("write", &resolv_conf))?;
    let common = Path::new(COMMON);
    File::options().create(true).append(true).open(common).map_err(Error::file("make", common))?;
    show(common, base, false)?;
    show(&shown.directory, base, false)?;
    for program in &shown.programs {
        show(program, base, true)?;
    }
    for mount in &shown.mounts {
        rootfs::bind(mount, &rootfs::below(base, &mount.at))?;
    }
    pids.show_proc(&base.join("proc"))
}

/// Shows what is at a path of the lab, if anything is, at the same path.
fn show(path: &Path, base: &Path, read_only: bool) -> Result<(), Error> {
    if !path.exists() {
        return Ok(());
    }
    let mount = Mount {
        source: path.to_owned(),
        at: path.to_owned(),
        read_only,
        propagation: Propagation::HostToContainer,
    };
    rootfs::bind(&mount, &rootfs::below(base, path))
}
