// SPDX-License-Identifier: Apache-2.0
//! Certificates of a cluster (<https://kubernetes.io/docs/setup/best-practices/certificates/>): an authority, which is valid as long as the
//! cluster lives or until another one takes its place.

use std::sync::Arc;
use std::time::SystemTime;

use cluster::{Identity, Issuer, LabError};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// A certificate cannot be made: a name is malformed, or there is no key.
#[derive(Debug, thiserror::Error)]
#[error("failed to make a certificate: {0}")]
pub struct PkiError(#[from] rcgen::Error);

impl From<PkiError> for LabError {
    fn from(error: PkiError) -> Self {
        Self::Harness { what: "make a certificate".to_owned(), why: error.0.to_string() }
    }
}

/// An authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl std::fmt::Debug for Authority {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Authority")
    }
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
    pub fn new() -> Result<Self, PkiError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "kubernetes");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    /// Its certificate, as DER.
    #[must_use]
    pub fn der(&self) -> Vec<u8> {
        self.0.der().to_vec()
    }

    /// Its key, as PEM, for whoever signs in its name.
    #[must_use]
    pub fn key(&self) -> String {
        self.0.key().serialize_pem()
    }

    /// A client.
    ///
    /// # Errors
    /// No key can be made.
    pub fn client(&self, of: Subject<'_>) -> Result<Identity, PkiError> {
        self.sign(CertificateParams::default(), of, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        of: Subject<'_>,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<Identity, PkiError> {
        params.distinguished_name.push(DnType::CommonName, of.user);
        if let Some(group) = of.group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}

impl Issuer for Authority {
    fn ca(&self) -> String {
        self.0.pem()
    }

    fn issue(&self, names: &[String], valid_from: Option<SystemTime>) -> Result<Identity, LabError> {
        let of = Subject { user: names.first().map_or("server", String::as_str), group: None };
        let mut params = CertificateParams::new(names).map_err(PkiError)?;
        if let Some(from) = valid_from {
            params.not_before = from.into();
        }
        Ok(self.sign(params, of, ExtendedKeyUsagePurpose::ServerAuth)?)
    }

    fn successor(&self) -> Result<Arc<dyn Issuer>, LabError> {
        Ok(Arc::new(Self::new()?))
    }
}
