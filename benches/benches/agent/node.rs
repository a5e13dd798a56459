// SPDX-License-Identifier: Apache-2.0
//! A node: directories as a container of the agent sees them, an API server on loopback, and the agent as a process whose root they are.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use apiserver::{ApiServer, ServerOptions, Verb};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rig::rights::{self, Rights};

pub(crate) const NODE: &str = "bench";
/// Run directory of agent and plugin.
const RUN: &str = "var/run/istio-cni";
/// Configuration directory of the runtime.
const NET: &str = "host/etc/cni/net.d";
const ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";
/// Configuration of the primary.
pub(crate) const CONFLIST: &str = "10-primary.conflist";
pub(crate) const PRIMARY: &str = r#"{"cniVersion":"1.0.0","name":"primary","plugins":[{"type":"ptp","ipam":{"type":"host-local"}},{"type":"portmap"}]}"#;
/// Ports of upstream's agent.
const HEALTH: u16 = 8000;
const METRICS: u16 = 15014;
/// Deadline of anything that should take milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Binaries of a node.
pub(crate) struct Binaries {
    pub(crate) agent: PathBuf,
    pub(crate) plugin: PathBuf,
}

/// Leaves the machine's network and mounts: what is done from here on, nobody else sees, and it ends with this process.
pub(crate) fn enter_own_namespaces() -> Result<()> {
    let rights = rights::acquire(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET);
    ensure!(rights == Rights::Root, "needs root: {rights:?}");
    rig::link::up(&[]);
    Ok(())
}

/// Waits without an event to wait for: another process is looked at again and again.
pub(crate) fn until<T>(limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        ensure!(start.elapsed() < limit, "nothing came of it within {limit:?}");
        thread::park_timeout(Duration::from_micros(500));
    }
}

/// A node with nothing but a primary CNI.
pub(crate) struct Node {
    root: tempfile::TempDir,
    pub(crate) api: ApiServer,
    port: u16,
    /// Ends the API server's thread on drop.
    _served: mpsc::Sender<()>,
}

impl Node {
    pub(crate) fn create(binaries: &Binaries) -> Result<Self> {
        let root = tempfile::tempdir()?;
        let (api, port, served) = serve()?;
        let node = Self { root, api, port, _served: served };
        for dir in [
            "proc",
            "dev",
            "tmp",
            "opt/cni/bin",
            "host/opt/cni/bin",
            "host/var/run/netns",
            "host/proc",
            NET,
            RUN,
        ] {
            fs::create_dir_all(node.path(dir))?;
        }
        fs::create_dir_all(node.path("host/var/lib/cni/results"))?;
        for (from, to) in [("/proc", "proc"), ("/proc", "host/proc"), ("/dev", "dev")] {
            bind(Path::new(from), &node.path(to))?;
        }
        fs::copy(&binaries.plugin, node.path("opt/cni/bin/istio-cni"))?;
        fs::write(node.path(NET).join(CONFLIST), PRIMARY)?;
        // As the kubelet mounts it: a file is a link into a directory that is a link.
        let data = node.path(ACCOUNT).join("..1");
        fs::create_dir_all(&data)?;
        fs::write(data.join("token"), node.api.admin_token())?;
        fs::write(data.join("ca.crt"), node.api.ca_pem())?;
        fs::write(data.join("namespace"), "istio-system")?;
        symlink("..1", node.path(ACCOUNT).join("..data"))?;
        for name in ["token", "ca.crt", "namespace"] {
            symlink(format!("..data/{name}"), node.path(ACCOUNT).join(name))?;
        }
        Ok(node)
    }

    /// A path below the node's root.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.root.path().join(inside)
    }

    pub(crate) fn conflist(&self) -> PathBuf {
        self.path(NET).join(CONFLIST)
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.path(RUN)
    }

    /// True if the runtime's configuration has our entry.
    pub(crate) fn is_chained(&self) -> bool {
        fs::read_to_string(self.conflist())
            .is_ok_and(|text| text.contains("\"istio-cni\"") && text.contains("\"ptp\""))
    }

    /// Waits until the agent knows the node's pods. Nothing that is measured before says anything about an agent at work.
    pub(crate) fn watched(&self) -> Result<()> {
        until(PATIENCE, || Ok((self.asked(Verb::Watch) > 0).then_some(())))
            .context("wait until the agent watches pods")
    }

    /// Number of GETs of single pods.
    pub(crate) fn gets(&self) -> usize {
        self.asked(Verb::Get)
    }

    fn asked(&self, verb: Verb) -> usize {
        self.api.count(|request| request.verb == verb && request.resource.as_deref() == Some("pods"))
    }

    /// Another writer replaces our configuration.
    pub(crate) fn clobber(&self) -> Result<()> {
        let new = self.path("tmp").join("new");
        fs::write(&new, PRIMARY)?;
        Ok(fs::rename(new, self.conflist())?)
    }

    pub(crate) fn start(&self, binary: &Path, more: &[(&str, &str)]) -> Result<Agent> {
        fs::copy(binary, self.path("install-cni"))?;
        let log = File::create(self.path("agent.log"))?;
        let started = Instant::now();
        let port = self.port.to_string();
        let env = [
            ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
            ("KUBERNETES_SERVICE_PORT", &port),
            ("KUBERNETES_NODE_NAME", NODE),
            ("NODE_NAME", NODE),
            ("REPAIR_NODE_NAME", NODE),
            ("REPAIR_ENABLED", "false"),
            ("AMBIENT_ENABLED", "false"),
            ("POD_NAMESPACE", "istio-system"),
        ];
        let spawn = || -> Result<Child> {
            // This thread's root only, and what it starts sees no process of others, as in a container.
            unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWPID)?;
            nix::unistd::chroot(self.root.path())?;
            nix::unistd::chdir("/")?;
            let mut command = Command::new("/install-cni");
            command.env_clear().envs(env).envs(more.iter().copied());
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            command.spawn().context("start the agent")
        };
        let child =
            thread::scope(|scope| scope.spawn(spawn).join().map_err(|_| anyhow!("a thread panicked")))??;
        Ok(Agent { child, started, log: self.path("agent.log") })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Else the temporary directory could not be removed. What stays mounted ends with this process' mount namespace.
        for dir in ["proc", "host/proc", "dev"] {
            nix::mount::umount2(&self.path(dir), nix::mount::MntFlags::MNT_DETACH).ok();
        }
        for entry in fs::read_dir(self.path("host/var/run/netns")).into_iter().flatten().flatten() {
            nix::mount::umount2(&entry.path(), nix::mount::MntFlags::MNT_DETACH).ok();
        }
    }
}

/// Bind mount.
pub(crate) fn bind(from: &Path, to: &Path) -> Result<()> {
    let nothing = None::<&str>;
    mount(Some(from), to, nothing, MsFlags::MS_BIND | MsFlags::MS_REC, nothing)
        .with_context(|| format!("mount {}", to.display()))
}

/// Runs an API server on a thread of its own until the sender is dropped.
fn serve() -> Result<(ApiServer, u16, mpsc::Sender<()>)> {
    let api = ApiServer::new(ServerOptions::default())?;
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let (sender, ended) = mpsc::channel();
    let served = api.clone();
    thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let _handle = {
            let _inside = runtime.enter();
            served.serve_tls(listener)?
        };
        ended.recv().ok();
        Ok(())
    });
    Ok((api, port, sender))
}

/// A running agent, killed on drop.
pub(crate) struct Agent {
    child: Child,
    started: Instant,
    log: PathBuf,
}

impl Agent {
    /// Duration from its start until it is ready.
    pub(crate) fn ready(&mut self) -> Result<Duration> {
        let started = self.started;
        let found = until(PATIENCE, || {
            self.is_alive()?;
            Ok(get(HEALTH, "/readyz")
                .is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
                .then(|| started.elapsed()))
        });
        found.with_context(|| {
            format!(
                "wait until it is ready; it says: {}; its log ends: {}",
                says(HEALTH, "/readyz"),
                self.last_words()
            )
        })
    }

    fn is_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the agent ended with {status}; its log ends: {}", self.last_words());
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(2).collect();
        if lines.is_empty() { "(empty)".to_owned() } else { lines.join(" <- ") }
    }

    /// A line of `/proc/PID/status`, in KiB.
    pub(crate) fn kib(&self, name: &str) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line =
            status.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name}"))?;
        Ok(line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB").trim().parse()?)
    }

    /// Terminates it; returns the duration.
    pub(crate) fn stop(&mut self) -> Result<Duration> {
        let start = Instant::now();
        kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGTERM)?;
        until(PATIENCE, || Ok(self.child.try_wait()?.map(|_| start.elapsed()))).context("wait for its end")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The value of a metric, over all its labels that contain `labels`; 0 for none.
pub(crate) fn metric(name: &str, labels: &str) -> Result<f64> {
    let text = get(METRICS, "/metrics")?;
    let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(labels));
    Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

fn says(port: u16, path: &str) -> String {
    let answer = get(port, path).unwrap_or_else(|error| error.to_string());
    answer.rsplit("\r\n").next().unwrap_or_default().trim().to_owned()
}

fn get(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
