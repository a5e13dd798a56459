// SPDX-License-Identifier: Apache-2.0
//! The back ends: in which form the kernel holds a pod's rules, and who writes them; which one an operator wants, and which one is
//! taken.

use std::fmt;
use std::str::FromStr;

use redirect::ruleset::Dialect;

pub mod choice;
pub mod choose;
pub mod facts;
mod record;

pub use choice::{Choice, Reason};
pub use choose::{NoBackend, choose};
pub use facts::{LegacyUse, NodeFeatures, ProbeError, probe};
pub use record::Record;

/// In which form the kernel holds rules, and who writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// Rules as `iptables-nft` writes them, over netlink: `iptables -S` in the pod lists them.
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

/// The operator's wish.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Wish {
    /// Whatever is right here.
    #[default]
    Auto,
    /// This one, or an error.
    Only(Backend),
}

impl Wish {
    /// True if the iptables tools are to write the rules, which look users, groups and services up by themselves.
    #[must_use]
    pub fn knows_names(self) -> bool {
        matches!(self, Self::Only(Backend::IptablesNft | Backend::IptablesLegacy))
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => out.write_str("auto"),
            Self::Only(backend) => backend.fmt(out),
        }
    }
}

/// `FORCE_IPTABLES_BINARY`: which variant of the iptables tools upstream would have to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ForcedBinary {
    /// `legacy`
    Legacy,
    /// `nft`
    Nft,
}

/// The settings that say which back end is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// The back end by name.
    pub backend: Wish,
    /// `native_nftables`
    pub native_nftables: bool,
    /// `FORCE_IPTABLES_BINARY`
    pub forced_binary: Option<ForcedBinary>,
}

impl Settings {
    /// Combines them: a back end by name counts before upstream's settings, and native nftables before a variant of the
    /// iptables tools, as upstream has it. A forced `nft` asks for what `iptables-nft` leaves in the kernel; nft-compat leaves the
    /// same there without needing the tool, and lacks nothing where the tool would work.
    #[must_use]
    pub fn wish(self) -> Wish {
        match (self.backend, self.native_nftables, self.forced_binary) {
            (Wish::Only(backend), _, _) => Wish::Only(backend),
            (Wish::Auto, true, _) => Wish::Only(Backend::Nft),
            (Wish::Auto, false, Some(ForcedBinary::Legacy)) => Wish::Only(Backend::IptablesLegacy),
            (Wish::Auto, false, Some(ForcedBinary::Nft)) => Wish::Only(Backend::NftCompat),
            (Wish::Auto, false, None) => Wish::Auto,
        }
    }
}

/// A value of `FORCE_IPTABLES_BINARY` that upstream does not know either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid FORCE_IPTABLES_BINARY value: {0:?} is neither \"legacy\" nor \"nft\"")]
pub struct UnknownBinary(pub String);

impl FromStr for ForcedBinary {
    type Err = UnknownBinary;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "legacy" => Ok(Self::Legacy),
            "nft" => Ok(Self::Nft),
            other => Err(UnknownBinary(other.to_owned())),
        }
    }
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
    fn a_named_back_end_counts_most_and_native_nftables_before_a_variant() {
        let all = Settings {
            backend: Wish::Only(Backend::IptablesNft),
            native_nftables: true,
            forced_binary: Some(ForcedBinary::Legacy),
        };
        assert_eq!(all.wish(), Wish::Only(Backend::IptablesNft));
        let unnamed = Settings { backend: Wish::Auto, ..all };
        assert_eq!(unnamed.wish(), Wish::Only(Backend::Nft));
        let legacy = Settings { native_nftables: false, ..unnamed };
        assert_eq!(legacy.wish(), Wish::Only(Backend::IptablesLegacy));
        let nft = Settings { forced_binary: Some(ForcedBinary::Nft), ..legacy };
        assert_eq!(nft.wish(), Wish::Only(Backend::NftCompat));
        assert_eq!(Settings::default().wish(), Wish::Auto);
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for backend in Backend::ALL {
            assert_eq!(backend.to_string().parse(), Ok(Wish::Only(backend)));
            assert_eq!(Wish::Only(backend).to_string(), backend.name());
        }
        assert_eq!("auto".parse(), Ok(Wish::Auto));
        assert_eq!(Wish::Auto.to_string(), "auto");
        assert_eq!("nft".parse(), Ok(ForcedBinary::Nft));
        assert!("nf_tables".parse::<ForcedBinary>().is_err());
        assert_eq!("legacy".parse::<Wish>(), Err(UnknownBackend("legacy".to_owned())));
    }
}
