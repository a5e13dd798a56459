// SPDX-License-Identifier: Apache-2.0
//! `cnilab run --container`: a run in a container, for whoever has Docker or Podman and no root on the host. Its image is made of this program,
//! the pods' binary and the product, and of nothing else; what the run leaves comes back to this machine. With the engine's defaults no namespace
//! can be made in a container: [`ADDED`] is what it gets beside them, and it is not `--privileged`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use testcontainers::bollard::Docker;
use testcontainers::bollard::container::LogOutput;
use testcontainers::bollard::models::HostConfig;
use testcontainers::bollard::query_parameters::{
    DownloadFromContainerOptionsBuilder, ListContainersOptionsBuilder, LogsOptionsBuilder,
    RemoveContainerOptionsBuilder,
};
use testcontainers::core::client::docker_client_instance;
use testcontainers::runners::{AsyncBuilder as _, AsyncRunner as _};
use testcontainers::{ContainerAsync, ContainerRequest, GenericBuildableImage, GenericImage, ImageExt as _};

use crate::binaries::{OPTIONAL, PLUGIN};
use crate::carried::SELF;
use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::locate::Workspace;
use crate::plan::Sut;
use crate::run::Termination;
use crate::{pack, report};

/// Capabilities (capabilities(7)) that an engine gives no container by itself: for namespaces and mounts, for networks, for the defects' tracer
/// and for pods' processes of other users.
const ADDED: [&str; 3] = ["NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE"];

/// What else an engine keeps a container from: its filters know of no namespace that is made inside.
const OPTIONS: [&str; 2] = ["apparmor=unconfined", "seccomp=unconfined"];

/// Label of its containers: the process that they are of.
const OF: &str = "dev.millrace.cnilab.process";

/// Seconds that a run may take to end.
const STOP: i32 = 30;

const IMAGE: (&str, &str) = ("cnilab.local/run", "1");
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
    let orders = serde_json::to_vec(&(&args, sut)).context("cannot write orders")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(async {
        let docker = docker_client_instance()
            .await
            .context("--container: no engine answers (DOCKER_HOST says where it listens)")?;
        sweep(&docker).await?;
        let image = image(&program, &sut.dir, orders).await?;
        let mut termination = Termination::listen()?;
        let container = tokio::select! {
            started = image.start() => started.with_context(refused)?,
            () = termination.came() => return Ok(Exit::Interrupted),
        };
        let ended = tokio::select! {
            ended = follow(&docker, &container) => ended,
            () = termination.came() => {
                // It says what it has seen until then, as anywhere else.
                container.stop_with_timeout(Some(STOP)).await.context("cannot stop the container")?;
                follow(&docker, &container).await
            }
        };
        let taken = take(&docker, container.id(), &report_dir).await;
        container.rm().await.context("cannot remove the container")?;
        let exit = ended?;
        match taken {
            // A run that was refused from the beginning leaves none.
            Err(error) if matches!(exit, Exit::Ok | Exit::Failed) => Err(error),
            _ => Ok(exit),
        }
    })
}

/// What an outer process has decided: arguments and product. Makes of the image's root one that runtimes and plugins know: they say `/var/run`.
pub(crate) fn orders(path: &Path) -> anyhow::Result<(RunArgs, Sut)> {
    fs::create_dir_all("/var").and_then(|()| symlink("/run", "/var/run")).context("cannot make /var/run")?;
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

/// The image of a run, and how its container is started.
async fn image(
    program: &Path,
    product: &Path,
    orders: Vec<u8>,
) -> anyhow::Result<ContainerRequest<GenericImage>> {
    let (name, tag) = IMAGE;
    let copied = "FROM scratch\nCOPY . /\nENV PATH=/usr/sbin:/usr/bin:/sbin:/bin\n";
    let mut files = GenericBuildableImage::new(name, tag)
        .with_dockerfile_string(copied)
        .with_file(program, format!(".{PROGRAM}"))
        .with_data(orders, format!(".{ORDERS}"))
        // Mount points, and a place for what the program carries.
        .with_data("", "./tmp/.here")
        .with_data("", "./run/.here");
    for binary in [PLUGIN].into_iter().chain(OPTIONAL) {
        let path = product.join(binary);
        if path.exists() {
            let at = format!(".{}", path.display());
            files = files.with_file(path, at);
        }
    }
    let built = files.build_image().await.context("--container: the engine makes no image")?;
    let mut request = built.with_cmd([PROGRAM, "contained", ORDERS]);
    for capability in ADDED {
        request = request.with_cap_add(capability);
    }
    for option in OPTIONS {
        request = request.with_security_opt(option);
    }
    Ok(request.with_label(OF, std::process::id().to_string()).with_host_config_modifier(open))
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

/// Shows what the run says, until it ends.
async fn follow(docker: &Docker, container: &ContainerAsync<GenericImage>) -> anyhow::Result<Exit> {
    let options = LogsOptionsBuilder::new().follow(true).stdout(true).stderr(true).build();
    let mut logs = docker.logs(container.id(), Some(options));
    while let Some(output) = logs.next().await {
        match output.context("the engine lost the container's output")? {
            LogOutput::StdErr { message } => std::io::stderr().write_all(&message)?,
            other => std::io::stdout().write_all(&other.into_bytes())?,
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
    std::io::Seek::rewind(&mut archive)?;
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        let path: PathBuf = entry.path()?.components().skip(1).collect();
        if path.as_os_str().is_empty() {
            continue;
        }
        if path.components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
            bail!("the container's report has a file {}", path.display());
        }
        entry.unpack(directory.join(&path)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Removes containers whose processes are gone: a run that was killed removes none.
async fn sweep(docker: &Docker) -> anyhow::Result<()> {
    let labelled = HashMap::from([("label", vec![OF])]);
    let all = ListContainersOptionsBuilder::new().all(true).filters(&labelled).build();
    let all = docker.list_containers(Some(all)).await;
    for container in
        all.context("--container: the engine does not answer (DOCKER_HOST says where it listens)")?
    {
        let process = container.labels.and_then(|labels| labels.get(OF).cloned()).unwrap_or_default();
        if let Some(id) = container.id.filter(|_| !Path::new("/proc").join(process).exists()) {
            let forced = RemoveContainerOptionsBuilder::new().force(true).build();
            docker
                .remove_container(&id, Some(forced))
                .await
                .context("cannot remove a container of a run that was killed")?;
        }
    }
    Ok(())
}
