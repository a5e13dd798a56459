// SPDX-License-Identifier: Apache-2.0
//! `cnilab run --container`: a run in a container, for whoever has Docker or Podman and no root on the host. Its image is made of this program,
//! the pods' binary and the product, and of real components if the run has any; what the run leaves comes back to this machine. With the engine's
//! defaults no namespace can be made in a container: [`ADDED`] is what it gets beside them, and it is not `--privileged`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use futures::stream::try_unfold;
use serde::{Deserialize, Serialize};
use testcontainers::bollard::container::LogOutput;
use testcontainers::bollard::models::{HostConfig, HostConfigCgroupnsModeEnum};
use testcontainers::bollard::query_parameters::{
    DownloadFromContainerOptionsBuilder, ImportImageOptionsBuilder, ListContainersOptionsBuilder,
    ListImagesOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder, RemoveImageOptionsBuilder,
};
use testcontainers::bollard::{Docker, body_try_stream};
use testcontainers::core::client::docker_client_instance;
use testcontainers::runners::AsyncRunner as _;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt as _};

use tokio::io::AsyncReadExt as _;

use crate::binaries::{OPTIONAL, PLUGIN};
use crate::carried::SELF;
use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::locate::Workspace;
use crate::plan::{Parts, Sut};
use crate::termination::Termination;
use crate::tier::{contained, images};
use crate::{board, pack, report};

/// Capabilities (capabilities(7)) that an engine gives no container by itself: for namespaces and mounts, for networks, for the defects' tracer
/// and for pods' processes of other users.
const ADDED: [&str; 3] = ["NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE"];

/// Capability of whoever makes device nodes, as the OCI runtime of real nodes does: Docker gives it by default, Podman does not.
const MAKES_NODES: &str = "MKNOD";

/// Devices that a container of real nodes may use (`HostConfig.DeviceCgroupRules`): a cgroup may not allow what the one above it does not, and a
/// privileged pod is allowed all.
const DEVICES: &str = "a *:* rwm";

/// Security options (`HostConfig.SecurityOpt`): an engine's default filters refuse unshare(2) and mount(2).
const OPTIONS: [&str; 2] = ["apparmor=unconfined", "seccomp=unconfined"];

/// Label of its containers: the process that they are of, as [`identity`] has it.
const OF: &str = "dev.millrace.cnilab.of";

const NO_ENGINE: &str = "--container: no engine answers (DOCKER_HOST says where it listens)";

/// Bytes of an image that the engine gets at a time.
const PART: usize = 1 << 20;

/// Seconds that a run may take to end.
const STOP: i32 = 30;

/// Registry of its images, which is nowhere, and their name; the tag is the process that they are of, as [`identity`] has it.
const REGISTRY: &str = "cnilab.local";
const NAME: &str = "run";

const PROGRAM: &str = "/cnilab";
const ORDERS: &str = "/orders.json";

/// First process' orders.
#[derive(Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) args: RunArgs,
    pub(crate) sut: Sut,
    /// Of a run with a real component.
    pub(crate) parts: Option<Parts>,
}

/// Nodes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nodes {
    Embedded,
    Real,
}

impl Nodes {
    /// Capabilities that they need.
    fn capabilities(self) -> impl Iterator<Item = &'static str> {
        ADDED.into_iter().chain((self == Self::Real).then_some(MAKES_NODES))
    }
}

/// Plays a run in a container.
pub(crate) fn start(mut args: RunArgs, workspace: &Workspace, sut: &Sut) -> anyhow::Result<Exit> {
    let (report_dir, _held) = report::of_run(&args, workspace)?;
    let (parts, components) = match contained::gather(&args.on, workspace, sut, &report_dir) {
        Ok(gathered) => gathered.unzip(),
        Err(error) => {
            board::complain(format!("{error:#}"));
            return Ok(Exit::Partial);
        }
    };
    let files = tempfile::tempdir().context("no temporary directory")?;
    let program = program(workspace, files.path())?;
    // In there everything has the path that it has here.
    args.report_dir = Some(report_dir.clone());
    args.sut.get_or_insert_with(|| sut.dir.clone());
    let orders = files.path().join("orders.json");
    let nodes = if args.on.real { Nodes::Real } else { Nodes::Embedded };
    let text =
        serde_json::to_vec(&Orders { args, sut: sut.clone(), parts }).context("cannot write orders")?;
    fs::write(&orders, text).context("cannot write orders")?;
    let own = identity(std::process::id()).context("/proc does not show this process")?;
    let image = image(&own, program, orders, product(&sut.dir).chain(components.into_iter().flatten()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(async {
        let docker = docker_client_instance().await.context(NO_ENGINE)?;
        sweep(&docker, is_gone).await?;
        let played = play(&docker, image, nodes, &own, &report_dir).await;
        let swept = sweep(&docker, |process| process == own).await;
        // Of two errors the first says more.
        let exit = played?;
        swept.map(|()| exit)
    })
}

/// Plays a run in a container of this image, and takes what it leaves.
async fn play(
    docker: &Docker,
    image: File,
    nodes: Nodes,
    own: &str,
    report_dir: &Path,
) -> anyhow::Result<Exit> {
    let options = ImportImageOptionsBuilder::new().quiet(true).build();
    let parts = try_unfold(tokio::fs::File::from_std(image), async |mut image| {
        let mut part = vec![0; PART];
        let length = image.read(&mut part).await?;
        part.truncate(length);
        Ok((length > 0).then(|| (part.into(), image)))
    });
    let mut loaded = Box::pin(docker.import_image(options, body_try_stream(parts), None));
    while let Some(step) = loaded.next().await {
        step.context("--container: the engine takes no image")?;
    }
    let mut termination = Termination::listen()?;
    let container = tokio::select! {
        started = request(nodes, own).start() => started.with_context(|| refused(nodes))?,
        () = termination.came() => return Ok(Exit::Interrupted),
    };
    let exit = follow(docker, &container, &mut termination).await?;
    match take(docker, container.id(), report_dir).await {
        // A run that was refused from the beginning leaves nothing.
        Err(error) if matches!(exit, Exit::Ok | Exit::Failed) => Err(error),
        _ => Ok(exit),
    }
}

/// Orders of a contained run. Completes the image's root, which has no directories: runtimes and plugins name `/var/run`.
pub(crate) fn orders(path: &Path) -> anyhow::Result<Orders> {
    for directory in ["/run", "/tmp", "/var"] {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {directory}"))?;
    }
    symlink("/run", "/var/run").context("cannot make /var/run")?;
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let orders: Orders =
        serde_json::from_slice(&text).with_context(|| format!("{} has no orders", path.display()))?;
    if orders.args.on.real {
        contained::furnish().context("--container --real")?;
    }
    Ok(orders)
}

/// This program as one file.
fn program(workspace: &Workspace, directory: &Path) -> anyhow::Result<PathBuf> {
    let packed = directory.join("cnilab");
    if workspace.carried.is_some() {
        fs::copy(SELF, &packed).context("cannot copy this program")?;
    } else {
        pack::pack(workspace, &packed)?;
    }
    Ok(packed)
}

/// Binaries of the product.
fn product(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let binaries = [PLUGIN].into_iter().chain(OPTIONAL).map(|binary| directory.join(binary));
    binaries.filter(|path| path.exists())
}

/// Files that are on any machine: rules and packets name `root`, and a pod's `resolv.conf` covers the node's. Docker brings one of its own,
/// Podman (4.3) none to a container without a network.
const OF_ANY_MACHINE: [(&str, &str); 3] = [
    ("/etc/passwd", "root:x:0:0:root:/:/sbin/nologin\n"),
    ("/etc/group", "root:x:0:\n"),
    ("/etc/resolv.conf", ""),
];

/// An archive of the image of a run: this program, its orders, what is on any machine, and files that have in there the paths that they have here.
fn image(
    own: &str,
    program: PathBuf,
    orders: PathBuf,
    others: impl Iterator<Item = PathBuf>,
) -> anyhow::Result<File> {
    let mut files = vec![(PROGRAM.to_owned(), program), (ORDERS.to_owned(), orders)];
    files.extend(others.map(|path| (path.display().to_string(), path)));
    let written = tempfile::tempdir().context("no temporary directory")?;
    for (path, text) in OF_ANY_MACHINE {
        let file = written.path().join(path.trim_start_matches("/etc/"));
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        files.push((path.to_owned(), file));
    }
    let mut archive = tempfile::tempfile().context("no temporary file")?;
    images::of_files(REGISTRY, &format!("{NAME}:{own}"), &files, &archive)?;
    archive.rewind()?;
    Ok(archive)
}

/// Container of a run.
fn request(nodes: Nodes, own: &str) -> ContainerRequest<GenericImage> {
    let image = GenericImage::new(format!("{REGISTRY}/{NAME}"), own.to_owned());
    let mut request = image.with_cmd([PROGRAM, "contained", ORDERS]);
    for capability in nodes.capabilities() {
        request = request.with_cap_add(capability);
    }
    for option in OPTIONS {
        request = request.with_security_opt(option);
    }
    // Programs of the machine are found in there as they are here.
    let request = request.with_env_var("PATH", std::env::var("PATH").unwrap_or_default());
    request.with_label(OF, own).with_host_config_modifier(move |host| {
        open(host);
        if nodes == Nodes::Real {
            open_for_nodes(host);
        }
    })
}

/// A container without a network, and with a whole `/proc` and `/sys`: the kernel mounts none in a new namespace where a part of the old one is hidden.
fn open(host: &mut HostConfig) {
    host.network_mode = Some("none".to_owned());
    host.publish_all_ports = None;
    host.masked_paths = Some(Vec::new());
    host.readonly_paths = Some(Vec::new());
}

/// A container whose first process may be an ancestor of privileged pods, and sees cgroups from its own on.
fn open_for_nodes(host: &mut HostConfig) {
    host.device_cgroup_rules = Some(vec![DEVICES.to_owned()]);
    host.cgroupns_mode = Some(HostConfigCgroupnsModeEnum::PRIVATE);
}

fn refused(nodes: Nodes) -> String {
    let (capabilities, options) = (nodes.capabilities().collect::<Vec<_>>().join(", "), OPTIONS.join(", "));
    let more = match nodes {
        Nodes::Embedded => String::new(),
        Nodes::Real => format!(", devices {} and cgroups of its own", DEVICES),
    };
    format!(
        "--container: the engine refuses a container with {capabilities} and {options}{more}, which is what a run takes"
    )
}

/// Shows what the run says, until it ends. Told to end, it says what it has seen until then, as anywhere else.
async fn follow(
    docker: &Docker,
    container: &ContainerAsync<GenericImage>,
    termination: &mut Termination,
) -> anyhow::Result<Exit> {
    let options = LogsOptionsBuilder::new().follow(true).stdout(true).stderr(true).build();
    let mut logs = Box::pin(docker.logs(container.id(), Some(options)));
    let mut is_told = false;
    loop {
        let output = tokio::select! {
            output = logs.next() => output,
            () = termination.came(), if !is_told => {
                is_told = true;
                container.stop_with_timeout(Some(STOP)).await.context("cannot stop the container")?;
                continue;
            }
        };
        match output {
            None => break,
            Some(output) => match output.context("the engine lost the container's output")? {
                LogOutput::StdErr { message } => std::io::stderr().write_all(&message)?,
                other => std::io::stdout().write_all(&other.into_bytes())?,
            },
        }
    }
    let code = container.exit_code().await.context("the engine does not say how the container ended")?;
    let exit = code.and_then(|code| Exit::from_code(i32::try_from(code).ok()?));
    exit.with_context(|| format!("the container ended with {code:?}"))
}

/// Copies what the run left to this machine.
async fn take(docker: &Docker, container: &str, directory: &Path) -> anyhow::Result<()> {
    let options = DownloadFromContainerOptionsBuilder::new().path(&directory.display().to_string()).build();
    let mut parts = docker.download_from_container(container, Some(options));
    let mut archive = tempfile::tempfile().context("no temporary file")?;
    while let Some(part) = parts.next().await {
        archive.write_all(&part.context("no report in the container")?)?;
    }
    unpack(archive, directory)
}

/// Unpacks an archive of a directory over this one.
fn unpack(mut archive: File, directory: &Path) -> anyhow::Result<()> {
    archive.rewind()?;
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        let path: PathBuf = entry.path()?.components().skip(1).collect();
        if path.as_os_str().is_empty() {
            continue;
        }
        if path.components().any(|part| !matches!(part, Component::Normal(_))) {
            bail!("the container's report has a file {}", path.display());
        }
        entry.unpack(directory.join(&path)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A process as all can tell it who share an engine, on other machines and in other containers: boot and namespace of process ids, id, and
/// start in ticks since boot (field 22 of proc_pid_stat(5)).
fn identity(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let start = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
    Some(format!("{}.{process}.{start}", ids_seen_here()?))
}

fn ids_seen_here() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    Some(format!("{}-{namespace}", boot.trim()))
}

/// True for a process that can be seen from here, had it not ended.
fn is_gone(identified: &str) -> bool {
    let mut parts = identified.split('.');
    let is_seen = parts.next().is_some_and(|place| ids_seen_here().is_some_and(|here| here == place));
    let process = parts.next().and_then(|process| process.parse().ok());
    is_seen && process.is_some_and(|process| identity(process).is_none_or(|now| now != identified))
}

/// Removes containers and images of these processes. A run that was killed removes none: the next one does.
async fn sweep(docker: &Docker, is_of: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let labelled = HashMap::from([("label", vec![OF])]);
    let all = ListContainersOptionsBuilder::new().all(true).filters(&labelled).build();
    for container in docker.list_containers(Some(all)).await.context(NO_ENGINE)? {
        let process = container.labels.and_then(|mut labels| labels.remove(OF)).unwrap_or_default();
        if let Some(id) = container.id.filter(|_| is_of(&process)) {
            let forced = RemoveContainerOptionsBuilder::new().force(true).build();
            docker.remove_container(&id, Some(forced)).await.context("cannot remove a run's container")?;
        }
    }
    let prefix = format!("{REGISTRY}/{NAME}:");
    let named = HashMap::from([("reference", vec![format!("{prefix}*")])]);
    let all = ListImagesOptionsBuilder::new().filters(&named).build();
    for image in docker.list_images(Some(all)).await.context(NO_ENGINE)? {
        for tag in image.repo_tags.iter().filter(|tag| tag.strip_prefix(&prefix).is_some_and(&is_of)) {
            let forced = RemoveImageOptionsBuilder::new().force(true).build();
            docker.remove_image(tag, Some(forced), None).await.context("cannot remove a run's image")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_shares_an_engine_leaves_what_others_run() {
        let own = identity(std::process::id()).unwrap();
        assert!(!is_gone(&own), "{own}");
        assert!(
            own.len() <= 128 && own.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte)),
            "{own} is a tag"
        );
        let [place, process, start] = own.split('.').collect::<Vec<_>>().try_into().unwrap();
        for (gone, identified) in [
            (true, format!("{place}.{process}.{start}0")),
            (true, format!("{place}.{}.{start}", u32::MAX)),
            (false, format!("{place}0.{}.{start}", u32::MAX)),
            (false, format!("other-boot.{process}.{start}")),
            (false, process.to_owned()),
            (false, String::new()),
        ] {
            assert_eq!(is_gone(&identified), gone, "{identified}");
        }
    }
}
