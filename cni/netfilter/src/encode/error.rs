// SPDX-License-Identifier: Apache-2.0
//! Errors of encoding, found before anything is sent.

/// Failure to encode a ruleset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A rule names a value that the kernel cannot hold.
    #[error("encode rule \"{rule}\"")]
    Rule {
        /// The rule, with its family, table and chain.
        rule: String,
        /// The value.
        #[source]
        value: Unencodable,
    },
}

/// A value that the kernel cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unencodable {
    /// A port that is neither a number nor a range.
    #[error("port {0:?} is neither a number nor a range")]
    Port(String),
    /// A range that runs backwards.
    #[error("port range {low}:{high} ends before it begins")]
    PortRange {
        /// Lower end.
        low: u16,
        /// Upper end.
        high: u16,
    },
    /// `! --dport 0:65535`: it can never hold, but iptables-nft would write a rule that always holds.
    #[error("a rule for ports outside 0:65535 can never match")]
    NoPortLeft,
    /// A port condition without `-p tcp` or `-p udp`.
    #[error("a port needs a protocol")]
    PortWithoutProtocol,
    /// `-m multiport` with no port or with more than 15.
    #[error("multiport holds 1 to 15 ports, not {0}")]
    PortCount(usize),
    /// A user or group by name. Only the side where the name comes from can look it up: resolve it in the ruleset first.
    #[error("user or group {0:?} is a name; names are not resolved here")]
    Name(String),
    /// The number that means "no user".
    #[error("{0} is not a user or group")]
    Id(u32),
    /// An interface name that is empty, too long, or holds a NUL.
    #[error("interface {0:?} is not 1 to 15 bytes without NUL")]
    Interface(String),
    /// A family in a table of the other one.
    #[error("a table of iptables holds one family, not also {0:?}")]
    OtherFamily(redirect::ruleset::Family),
    /// An address of the other family.
    #[error("{0} is of the other family")]
    Family(redirect::ruleset::Cidr),
    /// A prefix longer than its address.
    #[error("the prefix of {0} is longer than the address")]
    Prefix(redirect::ruleset::Cidr),
    /// `! -d 0.0.0.0/0`
    #[error("nothing is outside {0}")]
    NoAddressLeft(redirect::ruleset::Cidr),
    /// More expressions than the kernel takes, or more bytes than fit.
    #[error("the rule is too long for the kernel ({0} expressions)")]
    TooLong(usize),
}
