// SPDX-License-Identifier: Apache-2.0
//! An embedded Kubernetes API: enough of one for a kube client in process, and for any HTTPS client with a bearer token.
//!
//! Objects are JSON. Of built-in kinds unknown fields are dropped; no controller
//! runs but those that follow a deletion ([`ApiServer::follow_deletions`]): a lab brings its own.
//!
//! | module | what |
//! |---|---|
//! | [`kinds`], `discovery` | the table of resources, and what clients learn of it: pure |
//! | [`store`] | objects, changes, history: pure |
//! | [`access`], `accounts` | tokens and whose they are; what pods get of their accounts: pure |
//! | [`rbac`], `roles`, `review` | what rules allow, the objects that have them, and the question for it: pure |
//! | `admission` | what admission policies say of a write, and which webhooks it goes through: pure |
//! | `webhooks`, [`network`] | calls of webhooks; the network that they are made from |
//! | [`selector`], [`patch`], `strategic`, `apply`, [`route`], `protobuf`, [`error`], `causes` | the parts of a request and its failures: pure |
//! | [`reads`] | who answers a read, the watch cache or etcd, and which are refused: pure |
//! | `scale`, `workloads`, `options` | replicas as a subresource; what controllers rely on; options of a write: pure |
//! | `schema`, `defaults`, `fields` | the fields of built-in kinds: which there are, what is filled in, what is refused: pure |
//! | `table` | objects as rows, for `kubectl get`: pure |
//! | `call`, `operate`, `list`, `watch`, `answer`, `server`, `shared` | one request, from HTTP to the store and back |
//! | [`kubelets`], `containers`, `exec` | logs of containers, programs in them, and who has them |
//! | `proxy`, `dial` | requests passed on to pods; connections of the server's own |
//! | `pki`, [`kubeconfig`] | certificates, kubeconfigs with a token |
//! | [`log`] | what was asked |
//! | `lab` | short cuts past HTTP for the lab itself |

pub mod access;
mod accounts;
mod admission;
mod answer;
mod apply;
mod call;
mod causes;
mod containers;
mod defaults;
mod dial;
mod discovery;
pub mod error;
mod exec;
mod fields;
mod ids;
mod json_patch;
pub mod kinds;
pub mod kubeconfig;
pub mod kubelets;
mod lab;
mod list;
pub mod log;
pub mod network;
mod operate;
mod options;
pub mod patch;
mod pki;
mod protobuf;
mod proxy;
pub mod rbac;
pub mod reads;
mod review;
mod roles;
pub mod route;
mod scale;
mod schema;
pub mod selector;
mod server;
mod shared;
pub mod store;
mod strategic;
mod table;
mod validate;
mod watch;
mod webhooks;
mod workloads;

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use cluster::Issuer;
pub use k8s_openapi::jiff::Timestamp;
use listen::{Answer, Handler, Tls};
pub use listen::{ServeError, ServerHandle};

pub use self::accounts::ROOT_CA;
pub use self::causes::Causes;
pub use self::error::ApiError;
pub use self::lab::Changes;
pub use self::log::Logged;
pub use self::pki::{Authority, PkiError, Subject};
pub use self::rbac::Account;
pub use self::rbac::{Attributes, Grant, RoleId};
pub use self::reads::{Gates, Read};
pub use self::route::Verb;
pub use self::shared::Clock;

use self::access::{Access, Identity};
use self::ids::Ids;
use self::kubeconfig::Names;
use self::kubelets::Kubelets;
use self::network::Network;
use self::shared::{ServerState, Shared};
use self::store::Store;

/// Options of an API server.
#[derive(Clone)]
pub struct ServerOptions {
    /// Seed of UIDs, generated names and tokens.
    pub seed: u64,
    /// Clock.
    pub clock: Clock,
    /// Changes kept for watchers; older resource versions have expired.
    pub history: usize,
    /// Names and addresses of the server's certificate.
    pub names: Vec<String>,
    /// Interval of bookmarks.
    pub bookmark_every: Duration,
    /// TTL of an accepted token's look-up.
    pub token_cache: Duration,
    /// Delay of the controllers that follow a deletion. A real garbage collector goes by events and a queue.
    pub deletion_lag: Duration,
    /// Feature gates of reads.
    pub gates: Gates,
}

impl Default for ServerOptions {
    /// A seed of chance, the system's clock, loopback and the in-cluster names; the rest as large as a real server's.
    fn default() -> Self {
        let names =
            ["127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        Self {
            seed: RandomState::new().hash_one(0),
            clock: Arc::new(Timestamp::now),
            history: 10_000,
            names: names.map(str::to_owned).to_vec(),
            bookmark_every: Duration::from_secs(60),
            token_cache: Duration::from_secs(10),
            deletion_lag: Duration::from_millis(50),
            gates: Gates::default(),
        }
    }
}

/// An embedded API server: a handle that is cheap to clone.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
    authority: Arc<Authority>,
    names: Arc<[String]>,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ApiServer")
            .field("revision", &self.shared.lock().store.revision())
            .finish_non_exhaustive()
    }
}

impl ApiServer {
    /// An API server without any object.
    ///
    /// # Errors
    /// No key can be generated.
    pub fn new(options: ServerOptions) -> Result<Self, PkiError> {
        let authority = Arc::new(Authority::new()?);
        let names = Arc::from(options.names.clone());
        let mut ids = Ids::new(options.seed);
        let access = Access::new(ids.token(), options.token_cache);
        let state = ServerState {
            access,
            store: Store::new(options.history, ids, validate::check, authority.ca()),
            gates: options.gates,
        };
        let shared = Shared::new(state, options);
        Ok(Self { shared: Arc::new(shared), authority, names })
    }

    /// A client in process, as the administrator. Must be called inside of a tokio runtime.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client_as(Some(Identity::Admin), None)
    }

    /// A client in process without credentials of its own: those of a request count, as over a socket. Must be called inside of a tokio
    /// runtime.
    #[must_use]
    pub fn anonymous_client(&self) -> kube::Client {
        self.client_as(None, None)
    }

    /// A client in process that sends a bearer token. Must be called inside of a tokio runtime.
    #[must_use]
    pub fn client_with_token(&self, token: &str) -> kube::Client {
        self.client_as(None, Some(format!("Bearer {token}")))
    }

    fn client_as(&self, default: Option<Identity>, authorization: Option<String>) -> kube::Client {
        let shared = Arc::clone(&self.shared);
        let authorization = authorization.and_then(|text| http::HeaderValue::try_from(text).ok());
        let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
            if let Some(value) = &authorization {
                request.headers_mut().insert(http::header::AUTHORIZATION, value.clone());
            }
            Arc::clone(&shared).answer(default.clone(), request)
        });
        kube::Client::new(service, "default")
    }

    /// Serves HTTPS on a listener until the handle is dropped. Must be called inside of a tokio runtime.
    ///
    /// # Errors
    /// [`ServeError`] if a name is malformed, or the listener cannot be used.
    pub fn serve_tls(&self, listener: std::net::TcpListener) -> Result<ServerHandle, ServeError> {
        let identity = self.authority.issue(self.names(), None).map_err(std::io::Error::other)?;
        let tls = Tls::default();
        let _none_yet = tls.certify(&identity.certificate, &identity.key).map_err(std::io::Error::other)?;
        listen::serve(Socket(Arc::clone(&self.shared)), listener, &tls)
    }

    /// Those who answer for logs of containers and run programs in them. The first call counts.
    pub fn set_kubelets(&self, kubelets: Arc<dyn Kubelets>) {
        let _those_before = self.shared.kubelets().set(kubelets);
    }

    /// The network that webhooks are called from. The first call counts.
    pub fn set_network(&self, network: Arc<dyn Network>) {
        let _the_one_before = self.shared.network().set(network);
    }

    /// Names and addresses that it is reached under.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Certificate of its authority.
    #[must_use]
    pub fn ca_pem(&self) -> String {
        self.authority.ca()
    }

    /// Who issues its certificates.
    #[must_use]
    pub fn authority(&self) -> &Arc<Authority> {
        &self.authority
    }

    /// A kubeconfig with an embedded token, as upstream's installer writes it.
    #[must_use]
    pub fn kubeconfig(&self, server_url: &str, token: &str) -> String {
        kubeconfig::of(&self.ca_pem(), server_url, token)
    }

    /// A kubeconfig of the administrator, for kubectl.
    #[must_use]
    pub fn admin_kubeconfig(&self, server_url: &str) -> String {
        let token = self.admin_token();
        kubeconfig::named(
            &self.ca_pem(),
            server_url,
            &token,
            &Names { cluster: "cnilab", user: "admin", context: "cnilab" },
        )
    }
}

/// The server on a socket: without a token nobody is anybody.
#[derive(Clone)]
struct Socket(Arc<Shared>);

impl Handler for Socket {
    fn answer(self, request: http::Request<hyper::body::Incoming>) -> Answer {
        Box::pin(async move { Ok(self.0.answer(None, request).await.unwrap_or_else(|never| match never {})) })
    }
}
