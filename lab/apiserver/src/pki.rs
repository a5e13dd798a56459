// SPDX-License-Identifier: Apache-2.0
//! Certificates of a cluster (<https://kubernetes.io/docs/setup/best-practices/certificates/>): an authority, which is valid as long as the
//! cluster lives or until another one takes its place.

mod keys;

use std::sync::Arc;
use std::time::SystemTime;

use cluster::{Identity, Issuer, LabError};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use self::keys::Algorithm;

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
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    algorithm: Algorithm,
    /// Certificate of the authority that signed this one, as PEM; none signed itself.
    root: Option<String>,
}

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
    /// A new one with an RSA key, as kubeadm's.
    ///
    /// # Errors
    /// No key can be made.
    pub fn new() -> Result<Self, PkiError> {
        Self::self_signed(Algorithm::Rsa2048)
    }

    fn self_signed(algorithm: Algorithm) -> Result<Self, PkiError> {
        let issuer = CertifiedIssuer::self_signed(params("kubernetes"), algorithm.authority()?)?;
        Ok(Self { issuer, algorithm, root: None })
    }

    /// Its certificate, as DER.
    #[must_use]
    pub fn der(&self) -> Vec<u8> {
        self.issuer.der().to_vec()
    }

    /// Its key, as PEM, for whoever signs in its name.
    #[must_use]
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A client.
    ///
    /// # Errors
    /// No key can be made.
    pub fn client(&self, of: Subject<'_>) -> Result<Identity, PkiError> {
        let key = KeyPair::generate()?;
        self.sign(CertificateParams::default(), of, (ExtendedKeyUsagePurpose::ClientAuth, key))
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        of: Subject<'_>,
        (purpose, key): (ExtendedKeyUsagePurpose, KeyPair),
    ) -> Result<Identity, PkiError> {
        params.distinguished_name.push(DnType::CommonName, of.user);
        if let Some(group) = of.group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let own = params.signed_by(&key, &self.issuer)?.pem();
        let above = self.root.as_ref().map(|_| self.issuer.pem()).unwrap_or_default();
        Ok(Identity { certificate: own + &above, key: key.serialize_pem() })
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

impl Issuer for Authority {
    fn ca(&self) -> String {
        self.root.clone().unwrap_or_else(|| self.issuer.pem())
    }

    fn issue(&self, names: &[String], valid_from: Option<SystemTime>) -> Result<Identity, LabError> {
        let of = Subject { user: names.first().map_or("server", String::as_str), group: None };
        let mut params = CertificateParams::new(names).map_err(PkiError)?;
        if let Some(from) = valid_from {
            params.not_before = from.into();
        }
        let key = self.algorithm.server().map_err(PkiError)?;
        Ok(self.sign(params, of, (ExtendedKeyUsagePurpose::ServerAuth, key))?)
    }

    fn successor(&self) -> Result<Arc<dyn Issuer>, LabError> {
        Ok(Arc::new(Self::self_signed(Algorithm::EcdsaP256)?))
    }

    fn intermediate(&self) -> Result<Arc<dyn Issuer>, LabError> {
        let mut below = params("kubernetes-serving");
        below.use_authority_key_identifier_extension = true;
        let key = self.algorithm.authority().map_err(PkiError)?;
        let issuer = CertifiedIssuer::signed_by(below, key, &self.issuer).map_err(PkiError)?;
        Ok(Arc::new(Self { issuer, algorithm: self.algorithm, root: Some(self.ca()) }))
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    /// `rsaEncryption` (RFC 8017), as DER.
    const RSA_ENCRYPTION: [u8; 11] = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

    fn chain(pem: &str) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().unwrap()
    }

    fn is_rsa(certificate: &CertificateDer<'_>) -> bool {
        certificate.windows(RSA_ENCRYPTION.len()).any(|bytes| bytes == RSA_ENCRYPTION)
    }

    #[test]
    fn a_cluster_has_rsa_keys_and_its_second_authority_has_not() {
        let names = ["kubernetes".to_owned()];
        let first = Authority::new().unwrap();
        let second = first.successor().unwrap();
        for (issuer, rsa) in [(&first as &dyn Issuer, true), (&*second, false)] {
            let server = issuer.issue(&names, None).unwrap();
            let all = [chain(&issuer.ca()), chain(&server.certificate)].concat();
            assert_eq!(all.iter().map(is_rsa).collect::<Vec<_>>(), [rsa, rsa]);
        }
        assert_ne!(first.ca(), Authority::new().unwrap().ca());
    }

    #[test]
    fn a_server_below_an_intermediate_authority_shows_its_certificate_and_the_root_stays() {
        let root = Authority::new().unwrap();
        let intermediate = root.intermediate().unwrap();
        assert_eq!(intermediate.ca(), root.ca());
        let server = intermediate.issue(&["kubernetes".to_owned()], None).unwrap();
        let shown = chain(&server.certificate);
        assert_eq!(shown.len(), 2);
        assert!(!shown.contains(&chain(&root.ca())[0]));
    }
}
