// SPDX-License-Identifier: Apache-2.0
//! Keys of authorities and servers. RSA keys, as kubeadm's, are made beforehand, as ring makes none.

use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{Error, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;

/// The first is of servers, the others are of authorities in turns.
const RSA: &[u8] = include_bytes!("rsa.pem");

/// Algorithm of an authority's key, and of the servers that it certifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rsa2048,
    EcdsaP256,
}

impl Algorithm {
    /// Key of an authority: another one than that of the authority before it.
    pub(super) fn authority(self) -> Result<KeyPair, Error> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        match self {
            Self::Rsa2048 => {
                let all = rsa()?;
                let others = all.get(1..).unwrap_or_default();
                let turn = MADE.fetch_add(1, Ordering::Relaxed).checked_rem(others.len());
                key(turn.and_then(|at| others.get(at)))
            }
            Self::EcdsaP256 => KeyPair::generate(),
        }
    }

    /// Key of a server.
    pub(super) fn server(self) -> Result<KeyPair, Error> {
        match self {
            Self::Rsa2048 => key(rsa()?.first()),
            Self::EcdsaP256 => KeyPair::generate(),
        }
    }
}

fn rsa() -> Result<Vec<PrivatePkcs8KeyDer<'static>>, Error> {
    let all: Result<_, _> = PrivatePkcs8KeyDer::pem_slice_iter(RSA).collect();
    all.map_err(|_| Error::CouldNotParseKeyPair)
}

fn key(der: Option<&PrivatePkcs8KeyDer<'static>>) -> Result<KeyPair, Error> {
    KeyPair::try_from(der.ok_or(Error::CouldNotParseKeyPair)?)
}
