// SPDX-License-Identifier: Apache-2.0
//! `cnilab up`: an embedded cluster that stays until it is told to end, and a kubeconfig for it.
//!
//! The sandbox has a network of its own, and kubectl runs outside of it. A socket stays in the namespace that it was made in: so the API's
//! listener is made before the sandbox, and its descriptor is inherited.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use serde_json::json;

use crate::carried::needs_product;
use crate::cli::{Choice, Format, UpArgs};
use crate::exit::{Exit, Usage};
use crate::locate::Workspace;
use crate::plan::{Place, Privilege, Task, UpPlan, WantedCluster};
use crate::sandbox::Ended;
use crate::termination::Termination;
use crate::tier::started::{self, WORKLOAD};
use crate::tier::{Standing, netns};
use crate::{board, report, sandbox, sut};

/// Outside of the sandbox: builds, listens, decides.
pub fn start(mut args: UpArgs) -> anyhow::Result<Exit> {
    let mut workspace = Workspace::find()?;
    let sut = match &args.sut {
        Some(path) => sut::read(path, &workspace).context(Usage("--sut".to_owned()))?,
        None if workspace.carried.is_some() => return Err(needs_product("up").into()),
        None => sut::build_static(&workspace)?,
    };
    let workload = match workspace.carried.take() {
        Some(_) => PathBuf::new(),
        None => sut::build_workload(&workspace)?,
    };
    let kubeconfig = args.kubeconfig.clone().unwrap_or_else(|| workspace.lab.join("up/kubeconfig"));
    let kubeconfig = std::path::absolute(kubeconfig)?;
    sandbox::require_visible([&sut.dir, &workload, &kubeconfig])?;
    if let Some(record) = &mut args.record {
        // Empty from the beginning; and what cannot be written is said before anything is started.
        File::create(&record).with_context(|| format!("cannot write {}", record.display()))?;
        *record = std::path::absolute(&record)?;
        sandbox::require_visible([&*record])?;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .with_context(|| format!("cannot listen on 127.0.0.1:{}", args.port))?;
    fcntl(listener.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).context("cannot pass the listener on")?;
    let directory = workspace.lab.join("up");
    let is_used = args.real || args.kubeconfig.is_none();
    let _held = is_used.then(|| report::hold(&directory)).transpose()?;
    let asked = args.real.then(|| WantedCluster {
        nodes: args.nodes,
        choice: Choice { version: args.version, runtime: args.runtime, network: args.network },
        api: args.api.unwrap_or_default(),
        record: args.record.clone(),
    });
    let of = |asked| started::plan(&workspace, asked, &sut, &workload, &directory);
    let real = match asked.map(of).transpose() {
        Ok(real) => real,
        Err(error) => {
            board::complain(format!("{error:#}"));
            return Ok(Exit::Partial);
        }
    };
    let plan = UpPlan { args, kubeconfig, sut, workload, real, listener: listener.as_raw_fd() };
    let ended = sandbox::run(Task::Up(Box::new(plan)));
    started::ended();
    ended.map(Ended::exit)
}

/// Inside of the sandbox: starts the cluster and keeps it until a signal comes.
pub async fn stay(plan: UpPlan, place: Place) -> anyhow::Result<Exit> {
    let mut termination = Termination::listen()?;
    if let Privilege::Denied { reason } = &place.privilege {
        board::complain(format!("no cluster can be started here: {reason} (cnilab doctor says more)"));
        return Ok(Exit::Partial);
    }
    let listener = inherited(plan.listener);
    let address = listener.local_addr().context("the API's listener was not inherited")?;
    netns::set_loopback_up(netns::OWN.as_ref()).await.context("cannot bring lo up")?;
    eprintln!("starting {}", count(plan.args.nodes));
    let cluster = tokio::select! {
        started = Standing::start(&plan, listener) => started?,
        () = termination.came() => return Ok(Exit::Interrupted),
    };
    let server = format!("https://{address}");
    let kubeconfig = cluster.kubeconfig(&server)?;
    write(&plan.kubeconfig, &kubeconfig)?;
    board::say(&told(&plan, &server));
    eprintln!("{} until Ctrl-C", count(plan.args.nodes));
    termination.came().await;
    eprintln!("ending");
    remove(&plan.kubeconfig, &kubeconfig);
    for failure in cluster.stop(plan.args.record.as_deref()).await? {
        board::complain(failure);
    }
    Ok(Exit::Ok)
}

fn count(nodes: u8) -> String {
    if nodes == 1 { "a cluster of one node".to_owned() } else { format!("a cluster of {nodes} nodes") }
}

/// Printed once kubectl can be used.
fn told(plan: &UpPlan, server: &str) -> String {
    let kubeconfig = &plan.kubeconfig;
    match plan.args.output {
        Format::Json => json!({ "kubeconfig": kubeconfig, "server": server }).to_string(),
        Format::Text => {
            let real = plan.real.is_some();
            let image = if real { started::reference(WORKLOAD) } else { "cnilab/workload".to_owned() };
            let quoted = kubeconfig.display().to_string().replace('\'', r"'\''");
            format!(
                "export KUBECONFIG='{quoted}'\nkubectl get nodes\nkubectl run web --image={image} -- app --listen tcp:8080"
            )
        }
    }
}

/// Writes a kubeconfig: it has a token, and is its owner's alone. One that is there is replaced.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let Some(directory) = path.parent() else { bail!("{} is no file", path.display()) };
    let cannot = || format!("cannot write {}", path.display());
    fs::create_dir_all(directory).with_context(cannot)?;
    // The mode of a temporary file is 0600.
    let mut file = tempfile::NamedTempFile::new_in(directory).with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)?;
    file.persist(path).with_context(cannot)?;
    Ok(())
}

/// Removes the kubeconfig, unless it is another cluster's by now.
fn remove(path: &PathBuf, text: &str) {
    if fs::read_to_string(path).is_ok_and(|now| now == text) {
        // It names a cluster that is gone: harmless.
        let _ = fs::remove_file(path);
    }
}

#[expect(unsafe_code, reason = "a descriptor that was inherited has a number only")]
fn inherited(listener: RawFd) -> TcpListener {
    // SAFETY: the outer process left it open for this one, and nothing here has touched it; one that is closed is an error of its first use.
    TcpListener::from(unsafe { OwnedFd::from_raw_fd(listener) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_kubeconfig_is_its_owners_and_goes_with_its_cluster() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("up/kubeconfig");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        remove(&path, "one");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two", "it is another cluster's");
        remove(&path, "two");
        assert!(!path.exists());
    }
}
