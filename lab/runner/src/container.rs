// SPDX-License-Identifier: Apache-2.0
//! `cnilab run --container`: a run in a container, for whoever has Docker or Podman and no root on the host. Its image is made of this program,
//! the pods' binary and the product, and of nothing else; what the run leaves comes back to this machine. With the engine's defaults no namespace
//! can be made in a container: [`ADDED`] is what it gets beside them, and it is not `--privileged`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use testcontainers::bollard::container::LogOutput;
use testcontainers::bollard::models::HostConfig;
use testcontainers::bollard::query_parameters::{
    DownloadFromContainerOptionsBuilder, ImportImageOptionsBuilder, ListContainersOptionsBuilder,
    ListImagesOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder, RemoveImageOptionsBuilder,
};
use testcontainers::bollard::{Docker, body_full};
use testcontainers::core::client::docker_client_instance;
use testcontainers::runners::AsyncRunner as _;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt as _};

use crate::binaries::{OPTIONAL, PLUGIN};
use crate::carried::SELF;
use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::locate::Workspace;
use crate::plan::Sut;
use crate::run::Termination;
use crate::tier::images;
use crate::{pack, report};

/// Capabilities (capabilities(7)) that an engine gives no container by itself: for namespaces and mounts, for networks, for the defects' tracer
/// and for pods' processes of other users.
const ADDED: [&str; 3] = ["NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE"];

/// Security options (`HostConfig.SecurityOpt`): an engine's default filters refuse unshare(2) and mount(2).
const OPTIONS: [&str; 2] = ["apparmor=unconfined", "seccomp=unconfined"];

/// Label of its containers: the process that they are of.
const OF: &str = "dev.millrace.cnilab.process";

const NO_ENGINE: &str = "--container: no engine answers (DOCKER_HOST says where it listens)";

/// Seconds that a run may take to end.
const STOP: i32 = 30;

/// Registry of its images, which is nowhere, and their name; the tag is the process that they are of.
const REGISTRY: &str = "cnilab.local";
const NAME: &str = "run";

const PROGRAM: &str = "/cnilab";
const ORDERS: &str = "/orders.json";

/// Plays a run in a container.
pub(crate) fn start(mut args: RunArgs, workspace: &Workspace, sut: &Sut) -> anyhow::Result<Exit> {
    let of_run = || args.report_dir.clone().unwrap_or_else(|| workspace.lab.join("last"));
    let report_dir = report::fresh(&of_run())?;
    let files = tempfile::tempdir().context("no temporary directory")?;
    let program = program(workspace, files.path())?;
    // In there everything has the path that it has here.
    args.report_dir = Some(report_dir.clone());
    args.sut.get_or_insert_with(|| sut.dir.clone());
    let orders = files.path().join("orders.json");
    let text = serde_json::to_vec(&(&args, sut)).context("cannot write orders")?;
    fs::write(&orders, text).context("cannot write orders")?;
    let image = image(program, orders, &sut.dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(async {
        let docker = docker_client_instance().await.context(NO_ENGINE)?;
        sweep(&docker, |process| !is_alive(process)).await?;
        let played = play(&docker, image, &report_dir).await;
        let own = std::process::id().to_string();
        let swept = sweep(&docker, |process| process == own).await;
        // Of two errors the first says more.
        let exit = played?;
        swept.map(|()| exit)
    })
}

/// Plays a run in a container of this image, and takes what it leaves.
async fn play(docker: &Docker, image: Vec<u8>, report_dir: &Path) -> anyhow::Result<Exit> {
    let options = ImportImageOptionsBuilder::new().quiet(true).build();
    let mut loaded = Box::pin(docker.import_image(options, body_full(image.into()), None));
    while let Some(step) = loaded.next().await {
        step.context("--container: the engine takes no image")?;
    }
    let mut termination = Termination::listen()?;
    let container = tokio::select! {
        started = request().start() => started.with_context(refused)?,
        () = termination.came() => return Ok(Exit::Interrupted),
    };
    let exit = follow(docker, &container, &mut termination).await?;
    match take(docker, container.id(), report_dir).await {
        // A run that was refused from the beginning leaves nothing.
        Err(error) if matches!(exit, Exit::Ok | Exit::Failed) => Err(error),
        _ => Ok(exit),
    }
}

/// Arguments and product of a contained run. Completes the image's root, which has no directories: runtimes and plugins name `/var/run`.
pub(crate) fn orders(path: &Path) -> anyhow::Result<(RunArgs, Sut)> {
    for directory in ["/run", "/tmp", "/var"] {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {directory}"))?;
    }
    symlink("/run", "/var/run").context("cannot make /var/run")?;
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} has no orders", path.display()))
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

/// An archive of the image of a run: this program, its orders and the product.
fn image(program: PathBuf, orders: PathBuf, product: &Path) -> anyhow::Result<Vec<u8>> {
    let binaries = [PLUGIN].into_iter().chain(OPTIONAL).map(|binary| product.join(binary));
    let binaries: Vec<_> = binaries.filter(|path| path.exists()).collect();
    let mut files = vec![(PROGRAM.to_owned(), program), (ORDERS.to_owned(), orders)];
    files.extend(binaries.into_iter().map(|path| (path.display().to_string(), path)));
    images::of_files(REGISTRY, &format!("{NAME}:{}", std::process::id()), &files)
}

/// Container of a run.
fn request() -> ContainerRequest<GenericImage> {
    let process = std::process::id().to_string();
    let image = GenericImage::new(format!("{REGISTRY}/{NAME}"), process.clone());
    let mut request = image.with_cmd([PROGRAM, "contained", ORDERS]);
    for capability in ADDED {
        request = request.with_cap_add(capability);
    }
    for option in OPTIONS {
        request = request.with_security_opt(option);
    }
    request.with_label(OF, process).with_host_config_modifier(open)
}

/// A container without a network, and with a whole `/proc` and `/sys`: the kernel mounts none in a new namespace where a part of the old one is hidden.
fn open(host: &mut HostConfig) {
    host.network_mode = Some("none".to_owned());
    host.publish_all_ports = None;
    host.masked_paths = Some(Vec::new());
    host.readonly_paths = Some(Vec::new());
}

fn refused() -> String {
    let (capabilities, options) = (ADDED.join(", "), OPTIONS.join(", "));
    format!(
        "--container: the engine refuses a container with {capabilities} and {options}, which is what a run takes"
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

fn is_alive(process: &str) -> bool {
    Path::new("/proc").join(process).exists()
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
