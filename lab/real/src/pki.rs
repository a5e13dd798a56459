// SPDX-License-Identifier: Apache-2.0
//! Certificates of a cluster (<https://kubernetes.io/docs/setup/best-practices/certificates/>): one authority, valid as long as the cluster lives.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::{Issuer, LabError};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use serde_json::json;

use crate::error::Error;

/// Group of administrators.
pub const ADMINISTRATORS: &str = "system:masters";

/// An authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl std::fmt::Debug for Authority {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Authority")
    }
}

/// A certificate and its key, as PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

/// Whose certificate it is: a user, and the group that it is in.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub user: &'a str,
    pub group: Option<&'a str>,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// No key can be made.
    pub fn new() -> Result<Self, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "kubernetes");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    /// Its certificate, as PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// The same, as DER.
    pub(crate) fn der(&self) -> Vec<u8> {
        self.0.der().to_vec()
    }

    /// Its key, as PEM, for whoever signs in its name.
    #[must_use]
    pub fn key(&self) -> String {
        self.0.key().serialize_pem()
    }

    /// A server, reached under these names and addresses.
    ///
    /// # Errors
    /// A name is malformed.
    pub fn server(&self, of: Subject<'_>, names: &[&str], addresses: &[IpAddr]) -> Result<Identity, Error> {
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        params.subject_alt_names.extend(addresses.iter().copied().map(SanType::IpAddress));
        self.issue(params, of, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client.
    ///
    /// # Errors
    /// No key can be made.
    pub fn client(&self, of: Subject<'_>) -> Result<Identity, Error> {
        self.issue(CertificateParams::default(), of, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        of: Subject<'_>,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<Identity, Error> {
        params.distinguished_name.push(DnType::CommonName, of.user);
        if let Some(group) = of.group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }

    /// A client's kubeconfig for the API server at `server`; JSON, which is YAML.
    #[must_use]
    pub fn kubeconfig(&self, server: &str, identity: &Identity) -> String {
        let encoded = |text: &str| STANDARD.encode(text);
        let cluster = json!({ "server": server, "certificate-authority-data": encoded(&self.pem()) });
        let user = json!({
            "client-certificate-data": encoded(&identity.certificate),
            "client-key-data": encoded(&identity.key),
        });
        let context = json!({ "cluster": "cnilab", "user": "cnilab" });
        let all = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "cnilab", "cluster": cluster }],
            "users": [{ "name": "cnilab", "user": user }],
            "contexts": [{ "name": "cnilab", "context": context }],
            "current-context": "cnilab",
        });
        format!("{all:#}\n")
    }
}

impl Issuer for Authority {
    fn ca(&self) -> String {
        self.pem()
    }

    fn issue(&self, names: &[String]) -> Result<(String, String), LabError> {
        let of = Subject { user: names.first().map_or("server", String::as_str), group: None };
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let issued = self.server(of, &names, &[]).map_err(|error| LabError::Harness {
            what: "issue a certificate".to_owned(),
            why: error.to_string(),
        });
        issued.map(|identity| (identity.certificate, identity.key))
    }
}

/// A key pair that signs tokens: private, public.
///
/// # Errors
/// No key can be made.
pub fn signer() -> Result<(String, String), Error> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}
