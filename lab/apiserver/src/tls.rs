// SPDX-License-Identifier: Apache-2.0
//! The certificates of one API server, and the kubeconfig that trusts them.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Certificates could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// rcgen failed (a malformed name, for example).
    #[error("make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// rustls rejected them.
    #[error("set up TLS")]
    Setup(#[from] rustls::Error),
}

/// A certificate authority of its own, and the server's certificate.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub(crate) ca_pem: String,
    pub(crate) server: Arc<ServerConfig>,
}

impl Authority {
    /// For a server that is reached under these names and addresses.
    pub(crate) fn new(names: &[String]) -> Result<Self, TlsError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "kubernetes");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

        let (certificate, key) = issued(&issuer, names, "kube-apiserver")?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { ca_pem: issuer.pem(), issuer, server: Arc::new(server) })
    }

    /// Certificate and key of another server, as PEM.
    pub(crate) fn issue_pem(&self, names: &[String]) -> Result<(String, String), TlsError> {
        let name = names.first().map_or("server", String::as_str);
        let (certificate, key) = issued(&self.issuer, names, name)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

/// The file that upstream's installer writes for its plugin: the same names, keys in the same (alphabetical) order. The authority's certificate is PEM.
#[must_use]
pub fn kubeconfig(ca_pem: &str, server_url: &str, token: &str) -> String {
    let names = Names { cluster: "local", user: "istio-cni", context: "istio-cni-context" };
    kubeconfig_of(ca_pem, server_url, token, &names)
}

/// The same under other names.
pub(crate) fn kubeconfig_of(ca_pem: &str, server_url: &str, token: &str, names: &Names) -> String {
    let ca = STANDARD.encode(ca_pem);
    let (server, token) = (scalar(server_url), scalar(token));
    let Names { cluster, user, context } = names;
    format!(
        "\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {ca}
    server: {server}
  name: {cluster}
contexts:
- context:
    cluster: {cluster}
    user: {user}
  name: {context}
current-context: {context}
kind: Config
preferences: {{}}
users:
- name: {user}
  user:
    token: {token}
"
    )
}

/// Certificate and key of a server that is reached under these names and addresses.
fn issued(
    issuer: &CertifiedIssuer<'static, KeyPair>,
    names: &[String],
    common: &str,
) -> Result<(Certificate, KeyPair), TlsError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, common);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok((certificate, key))
}

/// Names in a kubeconfig.
pub(crate) struct Names {
    pub(crate) cluster: &'static str,
    pub(crate) user: &'static str,
    pub(crate) context: &'static str,
}

/// A YAML scalar: plain where that is safe, else double-quoted (a JSON string is one).
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._/[]:".contains(c))
        && !text.ends_with(':');
    if plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}
