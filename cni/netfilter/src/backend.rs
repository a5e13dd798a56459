// SPDX-License-Identifier: Apache-2.0
//! The back ends: in which form the kernel holds a pod's rules, and who writes them.

use std::fmt;
use std::str::FromStr;

use redirect::ruleset::Dialect;

/// In which form the kernel holds rules, and who writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// What `iptables-nft` would have written, over netlink: `iptables -S` in the pod lists it.
    NftCompat,
    /// Tables `inet istio-proxy-*` of native expressions, over netlink.
    Nft,
    /// Restore text through the nft variant of the iptables tools.
    IptablesNft,
    /// Restore text through the legacy variant of the iptables tools.
    IptablesLegacy,
}

impl Backend {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::NftCompat, Self::Nft, Self::IptablesNft, Self::IptablesLegacy];

    /// The name in settings, records and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NftCompat => "nft-compat",
            Self::Nft => "nft",
            Self::IptablesNft => "iptables-nft",
            Self::IptablesLegacy => "iptables-legacy",
        }
    }

    /// The dialect that rules must be generated in.
    #[must_use]
    pub fn dialect(self) -> Dialect {
        match self {
            Self::Nft => Dialect::Nft,
            Self::NftCompat | Self::IptablesNft | Self::IptablesLegacy => Dialect::Iptables,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What an operator wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Wish {
    /// Whatever is right here.
    #[default]
    Auto,
    /// This one, or an error.
    Only(Backend),
}

/// A text that names no back end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a back end: use auto, nft-compat, nft, iptables-nft or iptables-legacy")]
pub struct UnknownBackend(pub String);

impl FromStr for Wish {
    type Err = UnknownBackend;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let found = Backend::ALL.into_iter().find(|backend| backend.name() == text);
        found.map(Self::Only).ok_or_else(|| UnknownBackend(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for backend in Backend::ALL {
            assert_eq!(backend.to_string().parse(), Ok(Wish::Only(backend)));
        }
        assert_eq!("auto".parse(), Ok(Wish::Auto));
        assert_eq!("legacy".parse::<Wish>(), Err(UnknownBackend("legacy".to_owned())));
    }
}
