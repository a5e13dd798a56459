// SPDX-License-Identifier: Apache-2.0
//! The kubeconfig that the agent leaves in the run directory: where the API server is, whom to trust and what to show.
//! YAML or JSON. Read only when the agent did not answer. Nothing of its content gets into an error: a misplaced token
//! would end up in a log.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde::Deserialize;

/// The file's name in the run directory.
pub const FILE: &str = "istio-cni-kubeconfig";

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
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
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

/// What is wrong with a kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// A file could not be read.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The kubeconfig, or a file that it names.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Neither YAML nor JSON, or a field of another type.
    #[error("parse it, near line {line}, column {column}")]
    Syntax {
        /// Line, from 1; 0 if unknown.
        line: usize,
        /// Column, from 1; 0 if unknown.
        column: usize,
    },
    /// `current-context`, or what it names, is not there.
    #[error("find the {kind} {name:?} in it")]
    Missing {
        /// `context`, `cluster` or `user`.
        kind: &'static str,
        /// The name that nothing has.
        name: String,
    },
    /// The server is not an URL that we can use.
    #[error("use its server: it must start with http:// or https://")]
    Server,
    /// Base64 that is none.
    #[error("decode its {0}: not base64")]
    Base64(&'static str),
    /// TLS without anything to check it against.
    #[error("trust its server: neither certificate-authority(-data) nor insecure-skip-tls-verify is set")]
    NoAuthority,
    /// A way to log in that needs another program.
    #[error("log in as it says: {0} is not supported, only token, tokenFile and client certificates are")]
    Login(&'static str),
    /// A certificate without a key, or the reverse.
    #[error("use its client certificate: certificate and key must both be set")]
    HalfClient,
}

/// Reads the kubeconfig at `path` and the files that it names.
///
/// # Errors
/// When it, or a file that it names, cannot be read or does not say where to go and whom to trust.
pub fn load(path: &Path) -> Result<Endpoint, KubeconfigError> {
    let bytes = read(path)?;
    let base = path.parent().unwrap_or(Path::new(""));
    resolve(parse(&bytes)?, base)
}

fn read(path: &Path) -> Result<Vec<u8>, KubeconfigError> {
    std::fs::read(path).map_err(|source| KubeconfigError::Read { path: path.to_owned(), source })
}

fn parse(bytes: &[u8]) -> Result<File, KubeconfigError> {
    if bytes.trim_ascii_start().first() == Some(&b'{') {
        if let Ok(file) = serde_json::from_slice(bytes) {
            return Ok(file);
        }
    }
    let parsed: Result<Option<File>, _> = serde_saphyr::from_slice(bytes);
    parsed.map(Option::unwrap_or_default).map_err(|error| {
        let (line, column) = error.location().map_or((0, 0), |at| (at.line() as usize, at.column() as usize));
        KubeconfigError::Syntax { line, column }
    })
}

fn resolve(file: File, base: &Path) -> Result<Endpoint, KubeconfigError> {
    let context = match file.current_context.as_deref().unwrap_or_default() {
        "" if file.contexts.len() == 1 => file.contexts.into_iter().next(),
        name => file.contexts.into_iter().find(|named| named.name == name),
    };
    let Some(context) = context.map(|named| named.context) else {
        return Err(missing("context", file.current_context.unwrap_or_default()));
    };
    let cluster = file.clusters.into_iter().find(|named| named.name == context.cluster);
    let cluster = cluster.ok_or_else(|| missing("cluster", context.cluster))?.cluster;
    let user = match context.user.unwrap_or_default() {
        name if name.is_empty() => User::default(),
        name => match file.users.into_iter().find(|named| named.name == name) {
            Some(named) => named.user,
            None => return Err(missing("user", name)),
        },
    };
    let server = cluster.server.trim_end_matches('/').to_owned();
    let trust = trust(&server, cluster, base)?;
    let token = token(&user, base)?;
    Ok(Endpoint { server, trust, token, client: client(user, base)? })
}

fn missing(kind: &'static str, name: String) -> KubeconfigError {
    KubeconfigError::Missing { kind, name }
}

fn trust(server: &str, cluster: Cluster, base: &Path) -> Result<Trust, KubeconfigError> {
    let tls = server.starts_with("https://");
    if !tls && !server.starts_with("http://") {
        return Err(KubeconfigError::Server);
    }
    if !tls || cluster.insecure_skip_tls_verify == Some(true) {
        return Ok(Trust::Anyone);
    }
    let (data, file) = (cluster.certificate_authority_data, cluster.certificate_authority);
    let pem = inline_or_file(data, file, base, "certificate-authority-data")?;
    pem.map(Trust::Authorities).ok_or(KubeconfigError::NoAuthority)
}

/// A token's file wins over the token beside it, which may be older.
fn token(user: &User, base: &Path) -> Result<Option<Secret>, KubeconfigError> {
    let from_file = match user.token_file.as_deref().filter(|path| !path.is_empty()) {
        Some(path) => Some(read(&base.join(path))),
        None => None,
    };
    match (from_file, user.token.clone()) {
        (Some(Ok(bytes)), _) => Ok(Some(Secret(String::from_utf8_lossy(&bytes).into_owned()))),
        (Some(Err(error)), None) => Err(error),
        (_, token) => Ok(token.filter(|token| !token.expose().is_empty())),
    }
}

fn client(user: User, base: &Path) -> Result<Option<ClientPem>, KubeconfigError> {
    let foreign = [("exec", user.exec.is_some()), ("auth-provider", user.auth_provider.is_some())];
    if let (Some((name, _)), None, None) =
        (foreign.iter().find(|(_, set)| *set), &user.token, &user.token_file)
    {
        return Err(KubeconfigError::Login(name));
    }
    let chain = inline_or_file(
        user.client_certificate_data,
        user.client_certificate,
        base,
        "client-certificate-data",
    )?;
    let key_data = user.client_key_data.map(|secret| secret.0);
    let key = inline_or_file(key_data, user.client_key, base, "client-key-data")?;
    match (chain, key) {
        (None, None) => Ok(None),
        (Some(chain), Some(key)) => Ok(Some(ClientPem { chain, key: SecretBytes(key) })),
        _ => Err(KubeconfigError::HalfClient),
    }
}

/// What kubectl does, too: data wins over a file; a relative file lies beside the kubeconfig.
fn inline_or_file(
    data: Option<String>,
    file: Option<String>,
    base: &Path,
    what: &'static str,
) -> Result<Option<Vec<u8>>, KubeconfigError> {
    if let Some(data) = data.filter(|data| !data.is_empty()) {
        let compact: Vec<u8> = data.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let decoded = base64::engine::general_purpose::STANDARD.decode(compact);
        return decoded.map(Some).map_err(|_| KubeconfigError::Base64(what));
    }
    match file.filter(|file| !file.is_empty()) {
        Some(file) => read(&base.join(file)).map(Some),
        None => Ok(None),
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct File {
    current_context: Option<String>,
    #[serde(deserialize_with = "null_is_empty")]
    contexts: Vec<NamedContext>,
    #[serde(deserialize_with = "null_is_empty")]
    clusters: Vec<NamedCluster>,
    #[serde(deserialize_with = "null_is_empty")]
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    #[serde(default)]
    user: Option<String>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: Option<bool>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct User {
    token: Option<Secret>,
    #[serde(rename = "tokenFile")]
    token_file: Option<String>,
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
    client_key: Option<String>,
    client_key_data: Option<Secret>,
    exec: Option<serde::de::IgnoredAny>,
    auth_provider: Option<serde::de::IgnoredAny>,
}

fn null_is_empty<'de, D, T>(de: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(de)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "apiVersion: v1\nkind: Config\nclusters:\n- name: local\n  cluster:\n    server: https://[10.96.0.1]:443/\n    certificate-authority-data: Q0EK\nusers:\n- name: istio-cni\n  user:\n    token: \"s3cret\"\ncontexts:\n- name: istio-cni-context\n  context:\n    cluster: local\n    user: istio-cni\ncurrent-context: istio-cni-context\n";

    fn load_text(text: &str) -> Result<Endpoint, KubeconfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
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
            "find the context \"x\" in it"
        );
        assert_eq!(of("cluster: local", "cluster: y"), "find the cluster \"y\" in it");
        assert_eq!(of("user: istio-cni\n", "user: z\n"), "find the user \"z\" in it");
        assert_eq!(of("https://[10.96.0.1]:443/", "10.96.0.1"), KubeconfigError::Server.to_string());
        assert_eq!(of("Q0EK", "\"*\""), "decode its certificate-authority-data: not base64");
        assert_eq!(
            of("    certificate-authority-data: Q0EK\n", ""),
            KubeconfigError::NoAuthority.to_string()
        );
        assert_eq!(of("token: \"s3cret\"", "exec: {command: x}"), KubeconfigError::Login("exec").to_string());
        assert_eq!(load_text("").unwrap_err().to_string(), "find the context \"\" in it");
        let gone = load(Path::new("/nonexistent/k")).unwrap_err().to_string();
        assert!(gone.starts_with("read /nonexistent/k: "), "{gone}");
    }

    #[test]
    fn a_token_never_shows() {
        for broken in [
            "users:\n- name: u\n  user: s3cret\n",
            "users: [{name: u, user: {token: [s3cret]}}]",
            "users:\n- name: u\n  user:\n    token: \"s3cret\n",
            "{\"users\":[{\"name\":\"u\",\"user\":\"s3cret\"}]}",
            "s3cret",
            "s3cret: *s3cret",
        ] {
            let error = load_text(broken).unwrap_err();
            assert!(matches!(error, KubeconfigError::Syntax { .. }), "{broken}: {error}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
        let endpoint = load_text(YAML).unwrap();
        assert!(!format!("{endpoint:?}").contains("s3cret"));
    }
}
