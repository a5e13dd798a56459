// SPDX-License-Identifier: Apache-2.0
//! Starts the parts of the agent in order, and stops them.

use std::process::ExitCode;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cli::Cli;
use crate::install::task::{self, Context};
use crate::install::uninstall::{Binary, uninstall};
use crate::metrics::Metrics;
use crate::readiness::{Part, Readiness};
use crate::settings::*;

/// Runs the agent, or the command that was asked for.
#[must_use]
pub fn main(_cli: Cli) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map(|runtime| runtime.block_on(agent())) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

async fn agent() -> std::io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let settings = Arc::new(from_env());
    std::fs::create_dir_all(&settings.places.run_dir)?;
    let readiness = Readiness::default();
    readiness.right(Part::Sockets);
    let (_keep, receiver) = watch::channel(settings.clone());
    let stop = CancellationToken::new();
    let context = Context { settings: receiver, readiness: readiness.clone(), metrics: Metrics::default() };
    tokio::spawn(readyz(readiness));
    let install = tokio::spawn(task::run(context, stop.clone()));
    tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
    stop.cancel();
    let _ = install.await;
    let summary = tokio::task::spawn_blocking(move || uninstall(&settings, Binary::WhileUnused)).await?;
    eprintln!("{summary:?}");
    Ok(())
}

async fn readyz(readiness: Readiness) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let Ok(listener) = TcpListener::bind("0.0.0.0:8000").await else { return };
    while let Ok((mut peer, _)) = listener.accept().await {
        let _ = peer.read(&mut [0; 1024]).await;
        let missing = readiness.missing();
        let code = if missing.is_ready() { "200 OK" } else { "503 Service Unavailable" };
        let body = format!("{missing:?}");
        let _ = peer
            .write_all(
                format!(
                    "HTTP/1.1 {code}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )
                .as_bytes(),
            )
            .await;
    }
}

fn from_env() -> Settings {
    let var = |n: &str| std::env::var(n).unwrap_or_default();
    let flag = |n: &str, d: bool| {
        std::env::var(n).map_or(d, |v| ["1", "t", "true"].contains(&v.to_lowercase().as_str()))
    };
    let arg = |n: &str| std::env::args().find_map(|a| a.strip_prefix(&format!("--{n}=")).map(str::to_owned));
    let level = arg("log_output_level")
        .and_then(|l| l.split(',').find_map(|p| p.strip_prefix("cni-plugin:").map(str::to_owned)))
        .unwrap_or_else(|| "info".into());
    let ca = var("KUBE_CA_FILE");
    let account = "/var/run/secrets/kubernetes.io/serviceaccount";
    Settings {
        places: Places {
            source_dir: "/opt/cni/bin".into(),
            target_dirs: vec!["/host/opt/cni/bin".into()],
            net_dir: "/host/etc/cni/net.d".into(),
            run_dir: "/var/run/istio-cni".into(),
            account_dir: account.into(),
            netns_dir: "/".into(),
            cache_dir: "/host/var/lib/cni".into(),
            proc_dir: "/host/proc".into(),
        },
        chain: ChainSettings {
            conf_name: arg("cni-conf-name").unwrap_or_else(|| var("CNI_CONF_NAME")),
            chained: flag("CHAINED_CNI_PLUGIN", true),
            owned: flag("ISTIO_OWNED_CNI_CONFIG", false),
            owned_name: "02-istio-cni.conflist".into(),
            group_read: flag("CNI_CONF_GROUP_READ", false),
            template: String::new(),
        },
        entry: EntrySettings {
            log_level: level,
            exclude_namespaces: var("EXCLUDE_NAMESPACES")
                .split(',')
                .map(str::trim)
                .filter(|s| !s.is_empty())
                .map(str::to_owned)
                .collect(),
            pod_namespace: var("POD_NAMESPACE"),
            ambient_enabled: false,
            enablement_selectors: "[]".into(),
            native_nftables: flag("NATIVE_NFTABLES", false),
            ambient_detection_retry: flag("ENABLE_AMBIENT_DETECTION_RETRY", false),
            status_gate: false,
        },
        kubeconfig: KubeconfigSettings {
            server: (
                var("KUBERNETES_SERVICE_PROTOCOL"),
                var("KUBERNETES_SERVICE_HOST"),
                var("KUBERNETES_SERVICE_PORT"),
            ),
            ca_file: if ca.is_empty() { format!("{account}/ca.crt").into() } else { ca.into() },
            skip_verify: flag("SKIP_TLS_VERIFY", false),
            mode: match var("KUBECONFIG_MODE").as_str() {
                "420" | "0644" => 0o644,
                "416" => 0o640,
                _ => 0o600,
            },
        },
        repair: RepairSettings {
            enabled: false,
            policies: vec![],
            fallback: None,
            act_on_unredirected: false,
            node_name: String::new(),
            sidecar_annotation: String::new(),
            init_container: String::new(),
            termination_message: String::new(),
            exit_code: 0,
            label_selectors: String::new(),
            field_selectors: String::new(),
            label: (String::new(), String::new()),
            exclude_namespaces: Default::default(),
        },
        own: OwnPod::default(),
        monitoring_port: None,
    }
}
