// SPDX-License-Identifier: Apache-2.0
//! The control plane in the lab's own network: etcd, API server, controllers and scheduler, or an embedded one that nodes join.

use std::fmt;
use std::fs;
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::front::Upstream;
use apiserver::{ApiServer, Authority, PkiError, Subject};
use cluster::{Identity, Issuer as _};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use listen::ServerHandle;
use rcgen::KeyPair;
use tokio::sync::{Mutex, MutexGuard};
use tower::timeout::TimeoutLayer;

use crate::error::Error;
use crate::family::families;
use crate::kubeconfig::kubeconfig;
use crate::program::Program;
use crate::programs::Programs;

/// Group of administrators.
const ADMINISTRATORS: &str = "system:masters";

/// Address of the control plane, which every node reaches.
pub const ADDRESS: [u8; 4] = [10, 77, 0, 1];
/// Port of the API server.
pub const PORT: u16 = 6443;
/// First address of the services' range: that of `kubernetes.default`.
pub const SERVICE: &str = "10.96.0.1";
const SERVICES: [&str; 2] = ["10.96.0.0/16", "fd00:96::/112"];
/// Longest wait for the begin of an answer; a watch may then go on. A server gives up its own work after 60 s (`--request-timeout`).
const SILENCE: Duration = Duration::from_secs(90);
/// Client port of etcd.
const ETCD: &str = "http://127.0.0.1:2379";
const ETCD_PEER: &str = "http://127.0.0.1:2380";

/// The API server, to kubelets.
pub(crate) const ASKS_KUBELETS: Subject<'_> =
    Subject { user: "apiserver-kubelet-client", group: Some(ADMINISTRATORS) };

/// File of the authorities that pods are told to trust.
const ROOTS: &str = "roots.crt";

/// An API server on two busy cores starts within five seconds; its first start makes all objects that it brings along.
const START: Duration = Duration::from_secs(120);

/// The administrator.
const ADMIN: Subject<'_> = Subject { user: "admin", group: Some(ADMINISTRATORS) };

/// The control plane.
pub struct Control {
    /// Of its API server, nodes and clients.
    pub authority: Arc<Authority>,
    pub client: Client,
    server: Server,
}

/// Its API server.
enum Server {
    Real(Box<RealServer>),
    Embedded(ApiServer, #[expect(dead_code, reason = "held for its drop")] ServerHandle),
}

/// An API server of Kubernetes, with its store and those who follow its objects.
struct RealServer {
    etcd: Program,
    api: Restartable,
    controllers: Restartable,
    scheduler: Program,
    /// Authorities that the controllers publish.
    roots: PathBuf,
}

/// A program that is restarted while others use it.
struct Restartable {
    running: Mutex<Program>,
    path: PathBuf,
    arguments: Vec<String>,
    logs: PathBuf,
}

impl Restartable {
    async fn start(path: &Path, arguments: Vec<String>, logs: &Path) -> Result<Self, Error> {
        let running = Mutex::new(Program::start(None, path, &arguments, &[], logs).await?);
        Ok(Self { running, path: path.to_owned(), arguments, logs: logs.to_owned() })
    }

    /// Kills it, and starts it again after a while.
    #[expect(clippy::disallowed_methods, reason = "its absence is what was asked for")]
    async fn restart(&self, away: Duration) -> Result<MutexGuard<'_, Program>, Error> {
        let mut running = self.running.lock().await;
        running.kill().await?;
        tokio::time::sleep(away).await;
        *running = Program::start(None, &self.path, &self.arguments, &[], &self.logs).await?;
        Ok(running)
    }
}

/// Waits until an API server is ready.
async fn ready(api: &mut Program, client: &Client) -> Result<(), Error> {
    let look = || async {
        let request = http::Request::get("/readyz").body(Vec::new()).ok()?;
        client.request_text(request).await.ok()
    };
    api.until("is ready", START, look).await.map(drop)
}

impl fmt::Debug for Control {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Control").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// Where certificates and kubeconfigs are.
#[derive(Debug, Clone, Copy)]
struct Files<'a>(&'a Path);

impl Files<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.path(name);
        fs::write(&path, text).map_err(Error::file("write", &path))
    }

    fn identity(&self, name: &str, identity: &Identity) -> Result<(), Error> {
        self.write(&format!("{name}.crt"), &identity.certificate)?;
        self.write(&format!("{name}.key"), &identity.key)
    }

    /// `--flag=path` of a file.
    fn flag(&self, flag: &str, name: &str) -> String {
        format!("--{flag}={}", self.path(name).display())
    }
}

/// URL of the API server.
#[must_use]
pub fn server() -> String {
    format!("https://{}:{PORT}", IpAddr::from(ADDRESS))
}

impl Control {
    /// Starts it, and waits until the API server is ready.
    ///
    /// # Errors
    /// A program ends, or is not ready in time.
    pub async fn start(programs: &Programs, directory: &Path, logs: &Path) -> Result<Self, Error> {
        let authority = Arc::new(Authority::new()?);
        let directory = directory.join("control");
        fs::create_dir_all(&directory).map_err(Error::file("make", &directory))?;
        let files = Files(&directory);
        let kubeconfig = kubeconfig(&authority.ca(), &server(), &authority.client(ADMIN)?);
        write_all(&authority, files)?;
        let etcd = Program::start(None, &programs.etcd, &etcd(&directory), &[], logs).await?;
        let mut api = Restartable::start(&programs.apiserver, apiserver(files), logs).await?;
        let client = ClientBuilder::try_from(config(&kubeconfig).await?)?;
        let client = client.with_layer(&TimeoutLayer::new(SILENCE)).build();
        ready(api.running.get_mut(), &client).await?;
        let controllers = Restartable::start(&programs.controllers, controllers(files), logs).await?;
        let scheduler = Program::start(None, &programs.scheduler, &scheduler(files), &[], logs).await?;
        let roots = files.path(ROOTS);
        let server = Server::Real(Box::new(RealServer { etcd, api, controllers, scheduler, roots }));
        Ok(Self { authority, client, server })
    }

    /// Kills the API server, and starts it again after a while. Its store and its followers go on.
    ///
    /// # Errors
    /// It is an embedded one, or does not start.
    pub(crate) async fn restart_api(&self, away: Duration) -> Result<(), Error> {
        let Server::Real(server) = &self.server else {
            return Err(Error::Other("restart the API server", "it is embedded".to_owned()));
        };
        let mut api = server.api.restart(away).await?;
        ready(&mut api, &self.client).await
    }

    /// Tells pods to trust these authorities (PEM): controllers are restarted with them.
    ///
    /// # Errors
    /// The controllers do not start, or an embedded API server refuses them.
    pub(crate) async fn trust(&self, authorities: &str) -> Result<(), Error> {
        match &self.server {
            Server::Real(server) => {
                let roots = &server.roots;
                fs::write(roots, authorities).map_err(Error::file("write", roots))?;
                server.controllers.restart(Duration::ZERO).await.map(drop)
            }
            Server::Embedded(api, _) => {
                let published = api.publish_authorities(authorities);
                published.map_err(|error| Error::Other("publish authorities", error.to_string()))
            }
        }
    }

    /// Serves an embedded API server where a real one would be.
    ///
    /// # Errors
    /// Its port is taken.
    pub(crate) fn join(api: ApiServer) -> Result<Self, Error> {
        let listener = TcpListener::bind((IpAddr::from(ADDRESS), PORT));
        let listener = listener.map_err(|source| Error::System("listen for the API", source))?;
        let served = api.serve_tls(listener);
        let served = served.map_err(|error| Error::Other("serve the API", error.to_string()))?;
        Ok(Self {
            authority: Arc::clone(api.authority()),
            client: api.client(),
            server: Server::Embedded(api, served),
        })
    }

    /// `contentType` of kubelets: an embedded API server reads JSON.
    pub(crate) fn media_type(&self) -> &'static str {
        match &self.server {
            Server::Real(_) => "application/vnd.kubernetes.protobuf",
            Server::Embedded(..) => "application/json",
        }
    }

    /// Checks that its programs run.
    ///
    /// # Errors
    /// One has ended.
    pub(crate) fn goes_on(&mut self) -> Result<(), Error> {
        match &mut self.server {
            Server::Real(server) => {
                let RealServer { etcd, api, controllers, scheduler, .. } = &mut **server;
                let all = [etcd, api.running.get_mut(), controllers.running.get_mut(), scheduler];
                all.into_iter().try_for_each(Program::goes_on)
            }
            Server::Embedded(..) => Ok(()),
        }
    }

    /// Ends its programs, the last one first.
    ///
    /// # Errors
    /// One cannot be ended.
    pub(crate) async fn end(self) -> Result<(), Error> {
        if let Server::Real(server) = self.server {
            let RealServer { etcd, api, controllers, scheduler, .. } = *server;
            for mut program in [scheduler, controllers.running.into_inner(), api.running.into_inner(), etcd] {
                program.kill().await?;
            }
        }
        Ok(())
    }

    /// An administrator's kubeconfig for the API server at this address.
    ///
    /// # Errors
    /// No key can be made.
    pub fn kubeconfig(&self, server: &str) -> Result<String, Error> {
        self.kubeconfig_of(ADMIN, server)
    }

    /// Somebody's kubeconfig for the API server at this address: with a certificate, or a token where the API server is embedded.
    ///
    /// # Errors
    /// No key can be made.
    pub(crate) fn kubeconfig_of(&self, of: Subject<'_>, server: &str) -> Result<String, Error> {
        Ok(match &self.server {
            Server::Real(_) => kubeconfig(&self.authority.ca(), server, &self.authority.client(of)?),
            Server::Embedded(api, _) => {
                let groups: Vec<_> = of.group.into_iter().collect();
                api.kubeconfig(server, &api.user_token(of.user, &groups))
            }
        })
    }

    /// Its API server, as a front reaches it.
    ///
    /// # Errors
    /// No key can be made.
    pub(crate) async fn upstream(&self) -> Result<Upstream, Error> {
        match &self.server {
            Server::Real(_) => {
                let upstream = Upstream::remote(&config(&self.kubeconfig(&server())?).await?);
                upstream.map_err(|error| Error::Other("reach the API server", error.to_string()))
            }
            Server::Embedded(api, _) => Ok(Upstream::new(api.anonymous_client())),
        }
    }
}

/// A client's configuration.
async fn config(kubeconfig: &str) -> Result<Config, Error> {
    let wrong = |why: String| Error::Other("read a kubeconfig", why);
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(|error| wrong(error.to_string()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.map_err(|error| wrong(error.to_string()))
}

/// Names and addresses that the API server is reached under.
pub(crate) fn names() -> Vec<String> {
    let address = IpAddr::from(ADDRESS).to_string();
    let names = [
        "localhost",
        "127.0.0.1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        SERVICE,
        &address,
    ];
    names.map(str::to_owned).to_vec()
}

/// A key pair that signs tokens: private, public.
fn signer() -> Result<(String, String), Error> {
    let key = KeyPair::generate().map_err(PkiError::from)?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

fn write_all(authority: &Authority, files: Files<'_>) -> Result<(), Error> {
    files.write("ca.crt", &authority.ca())?;
    files.write(ROOTS, &authority.ca())?;
    files.identity("apiserver", &authority.issue(&names(), None)?)?;
    files.identity("kubelet-client", &authority.client(ASKS_KUBELETS)?)?;
    let (private, public) = signer()?;
    files.write("accounts.key", &private)?;
    files.write("accounts.pub", &public)?;
    files.write("ca.key", &authority.key())?;
    for user in ["kube-controller-manager", "kube-scheduler"] {
        let identity = authority.client(Subject { user: &format!("system:{user}"), group: None })?;
        files.write(&format!("{user}.kubeconfig"), &kubeconfig(&authority.ca(), &server(), &identity))?;
    }
    Ok(())
}

fn etcd(directory: &Path) -> Vec<String> {
    vec![
        format!("--data-dir={}", directory.join("etcd").display()),
        format!("--listen-client-urls={ETCD}"),
        format!("--advertise-client-urls={ETCD}"),
        format!("--listen-peer-urls={ETCD_PEER}"),
        format!("--initial-advertise-peer-urls={ETCD_PEER}"),
        format!("--initial-cluster=default={ETCD_PEER}"),
        // It ends with the lab.
        "--unsafe-no-fsync".to_owned(),
    ]
}

fn apiserver(files: Files<'_>) -> Vec<String> {
    let mut arguments = vec![
        format!("--etcd-servers={ETCD}"),
        format!("--advertise-address={}", IpAddr::from(ADDRESS)),
        format!("--secure-port={PORT}"),
        format!("--service-cluster-ip-range={}", families(SERVICES[0], SERVICES[1]).join(",")),
        files.flag("tls-cert-file", "apiserver.crt"),
        files.flag("tls-private-key-file", "apiserver.key"),
        files.flag("client-ca-file", "ca.crt"),
        files.flag("service-account-key-file", "accounts.pub"),
        files.flag("service-account-signing-key-file", "accounts.key"),
        files.flag("kubelet-client-certificate", "kubelet-client.crt"),
        files.flag("kubelet-client-key", "kubelet-client.key"),
        files.flag("kubelet-certificate-authority", "ca.crt"),
    ];
    let fixed = [
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        // There is no kube-proxy where it runs: webhooks are asked at their endpoints.
        "--enable-aggregator-routing=true",
        "--kubelet-preferred-address-types=InternalIP",
    ];
    arguments.extend(fixed.map(str::to_owned));
    arguments
}

fn controllers(files: Files<'_>) -> Vec<String> {
    let mut arguments = clients(files, "kube-controller-manager");
    arguments.extend([
        files.flag("service-account-private-key-file", "accounts.key"),
        files.flag("root-ca-file", ROOTS),
        files.flag("cluster-signing-cert-file", "ca.crt"),
        files.flag("cluster-signing-key-file", "ca.key"),
        "--use-service-account-credentials=true".to_owned(),
    ]);
    arguments
}

fn scheduler(files: Files<'_>) -> Vec<String> {
    clients(files, "kube-scheduler")
}

/// Arguments of a client of the API server: there is one of each, so nobody is elected.
fn clients(files: Files<'_>, user: &str) -> Vec<String> {
    let name = format!("{user}.kubeconfig");
    let mut arguments: Vec<_> = ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"]
        .map(|flag| files.flag(flag, &name))
        .into();
    arguments.extend(["--bind-address=127.0.0.1", "--leader-elect=false"].map(str::to_owned));
    arguments
}
