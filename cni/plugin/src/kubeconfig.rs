// SPDX-License-Identifier: Apache-2.0
//! The kubeconfig that the agent leaves in the run directory: where the API server is, whom to trust and what to show.
//! YAML or JSON. Read only when the agent did not answer. Nothing of its content gets into an error: a misplaced token
//! would end up in a log.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;

use crate::yaml::{self, Node, Shape};

/// Where the API server is and how to talk to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `http://…` or `https://…`, without a slash at the end.
    pub server: String,
    /// Whom to take for the server.
    pub trust: Trust,
    /// Sent with each request.
    pub token: Option<Secret>,
    /// Shown to the server.
    pub client: Option<ClientPem>,
}

/// Whom to take for the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// A server whose certificate one of these (PEM) signed.
    Authorities(Vec<u8>),
    /// Any server: `insecure-skip-tls-verify`, or no TLS at all.
    Anyone,
}

/// A client certificate and its key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPem {
    /// The certificate and what leads to its root.
    pub chain: Vec<u8>,
    /// Its private key.
    pub key: SecretBytes,
}

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text, for the request that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.trim()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Bytes that are never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretBytes(Vec<u8>);

impl SecretBytes {
    /// The bytes, for the handshake that needs them.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Malformed kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// A file could not be read.
    #[error("failed to read {}: {source}", path.display())]
    Read {
        /// The kubeconfig, or a file that it names.
        path: PathBuf,
        source: io::Error,
    },
    /// Neither YAML nor JSON.
    #[error("failed to parse it, near line {line}, column {column}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A field of another type.
    #[error("failed to parse it: {key} is not what belongs there")]
    Shape {
        /// The field.
        key: &'static str,
    },
    /// `current-context`, or what it names, is not there.
    #[error("failed to find the {kind} {name:?} in it")]
    Missing {
        /// `context`, `cluster` or `user`.
        kind: &'static str,
        /// The name that nothing has.
        name: String,
    },
    /// The server is not an URL that we can use.
    #[error("failed to use its server: it must start with http:// or https://")]
    Server,
    /// Base64 that is none.
    #[error("failed to decode its {0}: not base64")]
    Base64(&'static str),
    /// TLS without anything to check it against.
    #[error(
        "failed to trust its server: neither certificate-authority(-data) nor insecure-skip-tls-verify is set"
    )]
    NoAuthority,
    /// A way to log in that needs another program.
    #[error(
        "failed to log in as it says: {0} is not supported, only token, tokenFile and client certificates are"
    )]
    Login(&'static str),
    /// A way to the server that is not known.
    #[error("failed to reach its server as it says: {0} is not supported")]
    Way(&'static str),
    /// A certificate without a key, or the reverse.
    #[error("failed to use its client certificate: certificate and key must both be set")]
    HalfClient,
}

/// Reads the kubeconfig at `path` and the files that it names.
///
/// # Errors
/// When it, or a file that it names, cannot be read or does not say where to go and whom to trust.
pub fn load(path: &Path) -> Result<Endpoint, KubeconfigError> {
    let bytes = read(path)?;
    let base = path.parent().unwrap_or(Path::new(""));
    resolve(&parse(&bytes)?, base)
}

fn read(path: &Path) -> Result<Vec<u8>, KubeconfigError> {
    std::fs::read(path).map_err(|source| KubeconfigError::Read { path: path.to_owned(), source })
}

fn parse(bytes: &[u8]) -> Result<Node, KubeconfigError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        KubeconfigError::Syntax { line, column: 1 }
    })?;
    yaml::parse(text).map_err(|at| KubeconfigError::Syntax { line: at.line, column: at.column })
}

fn resolve(file: &Node, base: &Path) -> Result<Endpoint, KubeconfigError> {
    let context = match (file.text("current-context")?, file.list("contexts")?) {
        (None, [only]) => only.get("context")?,
        (name, _) => named(file, "contexts", "context", name.unwrap_or_default())?,
    };
    let cluster = named(file, "clusters", "cluster", context.text("cluster")?.unwrap_or_default())?;
    let user = match context.text("user")? {
        None => &Node::Null,
        Some(name) => named(file, "users", "user", name)?,
    };
    for foreign in ["proxy-url", "tls-server-name"] {
        if cluster.text(foreign)?.is_some_and(|value| !value.is_empty()) {
            return Err(KubeconfigError::Way(foreign));
        }
    }
    let server = cluster.text("server")?.unwrap_or_default().trim_end_matches('/').to_owned();
    let trust = trust(&server, cluster, base)?;
    let token = token(user, base)?;
    let client = client(user, base)?;
    if token.is_none() && client.is_none() {
        for foreign in ["exec", "auth-provider", "username"] {
            if *user.get(foreign)? != Node::Null {
                return Err(KubeconfigError::Login(foreign));
            }
        }
    }
    Ok(Endpoint { server, trust, token, client })
}

/// The entry of `list` that is called `name`.
fn named<'n>(
    file: &'n Node,
    list: &'static str,
    kind: &'static str,
    name: &str,
) -> Result<&'n Node, KubeconfigError> {
    for entry in file.list(list)? {
        if entry.text("name")? == Some(name) {
            return Ok(entry.get(kind)?);
        }
    }
    Err(KubeconfigError::Missing { kind, name: name.to_owned() })
}

impl From<Shape> for KubeconfigError {
    fn from(shape: Shape) -> Self {
        Self::Shape { key: shape.key }
    }
}

fn trust(server: &str, cluster: &Node, base: &Path) -> Result<Trust, KubeconfigError> {
    let tls = server.starts_with("https://");
    if !tls && !server.starts_with("http://") {
        return Err(KubeconfigError::Server);
    }
    if !tls || cluster.text("insecure-skip-tls-verify")? == Some("true") {
        return Ok(Trust::Anyone);
    }
    let pem = inline_or_file(cluster, "certificate-authority-data", "certificate-authority", base)?;
    pem.map(Trust::Authorities).ok_or(KubeconfigError::NoAuthority)
}

/// A token's file wins over the token beside it, which may be older.
fn token(user: &Node, base: &Path) -> Result<Option<Secret>, KubeconfigError> {
    let inline = user.text("token")?.map(|token| Secret(token.to_owned()));
    let Some(path) = user.text("tokenFile")? else { return Ok(inline) };
    match (read(&base.join(path)), inline) {
        (Ok(bytes), _) => Ok(Some(Secret(String::from_utf8_lossy(&bytes).into_owned()))),
        (Err(_), Some(inline)) => Ok(Some(inline)),
        (Err(error), None) => Err(error),
    }
}

fn client(user: &Node, base: &Path) -> Result<Option<ClientPem>, KubeconfigError> {
    let chain = inline_or_file(user, "client-certificate-data", "client-certificate", base)?;
    let key = inline_or_file(user, "client-key-data", "client-key", base)?;
    match (chain, key) {
        (None, None) => Ok(None),
        (Some(chain), Some(key)) => Ok(Some(ClientPem { chain, key: SecretBytes(key) })),
        _ => Err(KubeconfigError::HalfClient),
    }
}

/// As kubectl: inline data wins over a file; a relative path starts at the kubeconfig's directory.
fn inline_or_file(
    node: &Node,
    data_key: &'static str,
    file_key: &'static str,
    base: &Path,
) -> Result<Option<Vec<u8>>, KubeconfigError> {
    if let Some(data) = node.text(data_key)? {
        let compact: Vec<u8> = data.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let decoded = base64::engine::general_purpose::STANDARD.decode(compact);
        return decoded.map(Some).map_err(|_| KubeconfigError::Base64(data_key));
    }
    node.text(file_key)?.map(|file| read(&base.join(file))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "apiVersion: v1\nkind: Config\nclusters:\n- name: local\n  cluster:\n    server: https://[10.96.0.1]:443/\n    certificate-authority-data: Q0EK\nusers:\n- name: istio-cni\n  user:\n    token: \"s3cret\"\ncontexts:\n- name: istio-cni-context\n  context:\n    cluster: local\n    user: istio-cni\ncurrent-context: istio-cni-context\n";

    fn load_text(text: &str) -> Result<Endpoint, KubeconfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        std::fs::write(&path, text).unwrap();
        std::fs::write(dir.path().join("token"), "from-file\n").unwrap();
        std::fs::write(dir.path().join("ca.crt"), "CA\n").unwrap();
        load(&path)
    }

    #[test]
    fn what_the_agent_writes_is_read() {
        let endpoint = load_text(YAML).unwrap();
        assert_eq!(endpoint.server, "https://[10.96.0.1]:443");
        assert_eq!(endpoint.trust, Trust::Authorities(b"CA\n".to_vec()));
        assert_eq!(endpoint.token.unwrap().expose(), "s3cret");
        assert_eq!(endpoint.client, None);
    }

    #[test]
    fn json_is_read_too_and_http_needs_no_authority() {
        let json = r#"{"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"users":null,
            "contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}"#;
        let endpoint = load_text(json).unwrap();
        assert_eq!((endpoint.server.as_str(), endpoint.trust), ("http://127.0.0.1:1", Trust::Anyone));
        assert_eq!(endpoint.token, None);
    }

    #[test]
    fn files_beside_the_kubeconfig_are_found_and_a_token_file_wins() {
        let text = YAML
            .replace("certificate-authority-data: Q0EK", "certificate-authority: ca.crt")
            .replace("token: \"s3cret\"", "token: old\n    tokenFile: token");
        let endpoint = load_text(&text).unwrap();
        assert_eq!(endpoint.trust, Trust::Authorities(b"CA\n".to_vec()));
        assert_eq!(endpoint.token.unwrap().expose(), "from-file");
    }

    #[test]
    fn client_certificates_come_in_pairs() {
        let both =
            YAML.replace("token: \"s3cret\"", "client-certificate-data: Qw==\n    client-key-data: Sw==");
        let client = load_text(&both).unwrap().client.unwrap();
        assert_eq!((client.chain.as_slice(), client.key.expose()), (&b"C"[..], &b"K"[..]));
        let half = YAML.replace("token: \"s3cret\"", "client-certificate-data: Qw==");
        assert!(matches!(load_text(&half), Err(KubeconfigError::HalfClient)));
    }

    #[test]
    fn each_mistake_has_its_own_message() {
        let of = |from: &str, to: &str| load_text(&YAML.replace(from, to)).unwrap_err().to_string();
        assert_eq!(
            of("current-context: istio-cni-context", "current-context: x"),
            "failed to find the context \"x\" in it"
        );
        assert_eq!(of("cluster: local", "cluster: y"), "failed to find the cluster \"y\" in it");
        assert_eq!(of("user: istio-cni\n", "user: z\n"), "failed to find the user \"z\" in it");
        assert_eq!(of("https://[10.96.0.1]:443/", "10.96.0.1"), KubeconfigError::Server.to_string());
        assert_eq!(of("Q0EK", "\"*\""), "failed to decode its certificate-authority-data: not base64");
        assert_eq!(
            of("    certificate-authority-data: Q0EK\n", ""),
            KubeconfigError::NoAuthority.to_string()
        );
        let way = of("    server:", "    tls-server-name: kubernetes\n    server:");
        assert_eq!(way, KubeconfigError::Way("tls-server-name").to_string());
        let way = of("    server:", "    proxy-url: http://proxy:3128\n    server:");
        assert_eq!(way, KubeconfigError::Way("proxy-url").to_string());
        assert_eq!(of("token: \"s3cret\"", "exec: {command: x}"), KubeconfigError::Login("exec").to_string());
        assert_eq!(load_text("").unwrap_err().to_string(), "failed to find the context \"\" in it");
        let gone = load(Path::new("/nonexistent/k")).unwrap_err().to_string();
        assert!(gone.starts_with("failed to read /nonexistent/k: "), "{gone}");
    }

    #[test]
    fn a_token_never_shows() {
        for broken in [
            YAML.replace("\n    token: \"s3cret\"", " s3cret"),
            YAML.replace("\"s3cret\"", "[s3cret]"),
            YAML.replace("\"s3cret\"", "\"s3cret"),
            YAML.replace("\"s3cret\"", "*s3cret"),
            "s3cret".to_owned(),
            "{\"users\": s3cret".to_owned(),
        ] {
            let error = load_text(&broken).unwrap_err();
            assert!(
                matches!(error, KubeconfigError::Syntax { .. } | KubeconfigError::Shape { .. }),
                "{broken}: {error}"
            );
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
        let endpoint = load_text(YAML).unwrap();
        assert!(!format!("{endpoint:?}").contains("s3cret"));
    }
}
