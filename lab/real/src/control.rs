// SPDX-License-Identifier: Apache-2.0
//! The control plane in the lab's own network: etcd, API server, controllers and scheduler, or an embedded one that nodes join.

use std::fmt;
use std::fs;
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::front::Upstream;
use apiserver::ApiServer;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use listen::ServerHandle;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::Mutex;

use cluster::Issuer;

use crate::error::Error;
use crate::family::families;
use crate::pki::{ADMINISTRATORS, Authority, Identity, Subject, signer};
use crate::program::Program;
use crate::programs::Programs;

/// Address of the control plane, which every node reaches.
pub const ADDRESS: [u8; 4] = [10, 77, 0, 1];
/// Port of the API server.
pub const PORT: u16 = 6443;
/// First address of the services' range: that of `kubernetes.default`.
pub const SERVICE: &str = "10.96.0.1";
const SERVICES: [&str; 2] = ["10.96.0.0/16", "fd00:96::/112"];
/// Client port of etcd.
const ETCD: &str = "http://127.0.0.1:2379";
const ETCD_PEER: &str = "http://127.0.0.1:2380";

/// The API server, to kubelets.
pub(crate) const ASKS_KUBELETS: Subject<'_> =
    Subject { user: "apiserver-kubelet-client", group: Some(ADMINISTRATORS) };

/// An API server on two busy cores starts within five seconds; its first start makes all objects that it brings along.
const START: Duration = Duration::from_secs(120);

/// The administrator.
const ADMIN: Subject<'_> = Subject { user: "admin", group: Some(ADMINISTRATORS) };

/// The control plane.
pub struct Control {
    /// Of nodes, and of everybody where the API server is a real one.
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
    /// Restarted while others use it.
    api: Mutex<Program>,
    followers: [Program; 2],
    /// Command line of the API server.
    path: PathBuf,
    arguments: Vec<String>,
    logs: PathBuf,
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
        let kubeconfig = authority.kubeconfig(&server(), &authority.client(ADMIN)?);
        write_all(&authority, files)?;
        let run =
            async |path: &Path, arguments: &[String]| Program::start(None, path, arguments, &[], logs).await;
        let etcd = run(&programs.etcd, &etcd(&directory)).await?;
        let (path, arguments, logs) = (programs.apiserver.clone(), apiserver(files), logs.to_owned());
        let mut api = run(&path, &arguments).await?;
        let client = Client::try_from(config(&kubeconfig).await?)?;
        ready(&mut api, &client).await?;
        let followers = [
            run(&programs.controllers, &controllers(files)).await?,
            run(&programs.scheduler, &scheduler(files)).await?,
        ];
        let api = Mutex::new(api);
        let server = Server::Real(Box::new(RealServer { etcd, api, followers, path, arguments, logs }));
        Ok(Self { authority, client, server })
    }

    /// Kills the API server, and starts it again after a while. Its store and its followers go on.
    ///
    /// # Errors
    /// It is an embedded one, or does not start.
    #[expect(clippy::disallowed_methods, reason = "its absence is what was asked for")]
    pub(crate) async fn restart_api(&self, away: Duration) -> Result<(), Error> {
        let Server::Real(server) = &self.server else {
            return Err(Error::Other("restart the API server", "it is embedded".to_owned()));
        };
        let mut api = server.api.lock().await;
        api.kill().await?;
        tokio::time::sleep(away).await;
        *api = Program::start(None, &server.path, &server.arguments, &[], &server.logs).await?;
        ready(&mut api, &self.client).await
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
            authority: Arc::new(Authority::new()?),
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
                let RealServer { etcd, api, followers, .. } = &mut **server;
                [etcd, api.get_mut()].into_iter().chain(followers).try_for_each(Program::goes_on)
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
            let RealServer { mut etcd, api, mut followers, .. } = *server;
            let mut api = api.into_inner();
            for program in followers.iter_mut().chain([&mut api, &mut etcd]) {
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
            Server::Real(_) => self.authority.kubeconfig(server, &self.authority.client(of)?),
            Server::Embedded(api, _) => {
                let groups: Vec<_> = of.group.into_iter().collect();
                api.kubeconfig(server, &api.user_token(of.user, &groups))
            }
        })
    }

    /// Its server's side of TLS, for whoever stands before it.
    ///
    /// # Errors
    /// No certificate can be made.
    pub(crate) fn tls(&self) -> Result<Arc<ServerConfig>, Error> {
        match &self.server {
            Server::Real(_) => Ok(Arc::new(tls(&server_identity(&self.authority)?)?)),
            Server::Embedded(api, _) => Ok(api.tls()),
        }
    }

    /// Who issues the certificates that its API server trusts, and its own.
    pub(crate) fn issuer(&self) -> Arc<dyn Issuer> {
        match &self.server {
            Server::Real(_) => Arc::clone(&self.authority) as Arc<dyn Issuer>,
            Server::Embedded(api, _) => Arc::new(api.clone()),
        }
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
            Server::Embedded(api, _) => Ok(Upstream::new(api.anonymous_client(), api.client())),
        }
    }
}

fn tls(identity: &Identity) -> Result<ServerConfig, Error> {
    let wrong = |why: String| Error::Other("use a certificate", why);
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes());
    let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes());
    let key = key.map_err(|error| wrong(error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| wrong(error.to_string()))?.with_no_client_auth();
    let mut config =
        builder.with_single_cert(vec![certificate], key).map_err(|error| wrong(error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// A client's configuration.
async fn config(kubeconfig: &str) -> Result<Config, Error> {
    let wrong = |why: String| Error::Other("read a kubeconfig", why);
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(|error| wrong(error.to_string()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.map_err(|error| wrong(error.to_string()))
}

/// A certificate of the API server, for every name and address that it is reached by.
fn server_identity(authority: &Authority) -> Result<Identity, Error> {
    let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
    let service = SERVICE.parse().unwrap_or(IpAddr::from(ADDRESS));
    let addresses = [IpAddr::from([127, 0, 0, 1]), IpAddr::from(ADDRESS), service];
    authority.server(Subject { user: "kube-apiserver", group: None }, &names, &addresses)
}

fn write_all(authority: &Authority, files: Files<'_>) -> Result<(), Error> {
    files.write("ca.crt", &authority.pem())?;
    files.identity("apiserver", &server_identity(authority)?)?;
    files.identity("kubelet-client", &authority.client(ASKS_KUBELETS)?)?;
    let (private, public) = signer()?;
    files.write("accounts.key", &private)?;
    files.write("accounts.pub", &public)?;
    files.write("ca.key", &authority.key())?;
    for user in ["kube-controller-manager", "kube-scheduler"] {
        let identity = authority.client(Subject { user: &format!("system:{user}"), group: None })?;
        files.write(&format!("{user}.kubeconfig"), &authority.kubeconfig(&server(), &identity))?;
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
        files.flag("root-ca-file", "ca.crt"),
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
