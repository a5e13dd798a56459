// SPDX-License-Identifier: Apache-2.0
//! The flags that programming, validation and `explain` share: names, variables, defaults. Upstream's first, in upstream's words;
//! then what its entry point adds; then ours.

/// Type of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// Go's `strconv.ParseBool`; the bare flag means true.
    Bool,
    /// 16-bit number, in any of Go's notations.
    Number,
    /// Go's `time.ParseDuration`.
    Duration,
}

/// Environment variables of a flag. The last one that is set wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Env {
    None,
    /// Name of the flag in capitals.
    Own,
    /// That, then another.
    OwnThen(&'static str),
    /// Another one only.
    Only(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Flag {
    pub name: &'static str,
    pub short: Option<char>,
    pub env: Env,
    pub kind: Kind,
    pub default: &'static str,
    pub help: &'static str,
}

impl Flag {
    /// Names of its variables; the last one wins.
    #[must_use]
    pub fn variables(&self) -> Vec<String> {
        let own = || self.name.to_ascii_uppercase().replace('-', "_");
        match self.env {
            Env::None => vec![],
            Env::Own => vec![own()],
            Env::OwnThen(other) => vec![own(), other.to_owned()],
            Env::Only(other) => vec![other.to_owned()],
        }
    }

    const fn short(self, short: char) -> Self {
        Self { short: Some(short), ..self }
    }

    const fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    const fn kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }
}

const fn text(name: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag { name, short: None, env: Env::Own, kind: Kind::Text, default, help }
}

const fn switch(name: &'static str, help: &'static str) -> Flag {
    text(name, "false", help).kind(Kind::Bool)
}

/// Flag of the logging library, without variables.
const fn log(name: &'static str, kind: Kind, help: &'static str) -> Flag {
    text(name, "", help).kind(kind).env(Env::None)
}

macro_rules! flags {
    ($($name:ident = $flag:expr;)*) => {
        $(pub static $name: Flag = $flag;)*
        /// Every flag, in the order of `--help`.
        pub static ALL: &[&Flag] = &[$(&$name),*];
    };
}

flags! {
    ENVOY_PORT = text("envoy-port", "15001", "Port to which outbound TCP traffic goes").short('p').env(Env::None);
    INBOUND_CAPTURE_PORT = text("inbound-capture-port", "15006", "Port to which inbound TCP traffic goes").short('z');
    INBOUND_TUNNEL_PORT = text("inbound-tunnel-port", "15008", "Port of tunnels, never captured").short('e');
    PROXY_UID = text("proxy-uid", "", "Users whose traffic is not captured (default: user $ENVOY_USER, else 1337)").short('u');
    PROXY_GID = text("proxy-gid", "", "Groups whose traffic is not captured (default: as --proxy-uid)").short('g');
    MODE = text("istio-inbound-interception-mode", "", "REDIRECT or TPROXY").short('m');
    INBOUND_PORTS = text("istio-inbound-ports", "", "Inbound ports that are captured; * for all, nothing for none").short('b');
    LOCAL_EXCLUDE_PORTS = text("istio-local-exclude-ports", "", "Inbound ports that are not; counts beside *").short('d');
    EXCLUDE_INTERFACES = text("istio-exclude-interfaces", "", "Interfaces whose traffic is left alone").short('c');
    SERVICE_CIDR = text("istio-service-cidr", "", "Outbound destinations that are captured; * for all, nothing for none").short('i');
    SERVICE_EXCLUDE_CIDR = text("istio-service-exclude-cidr", "", "Outbound destinations that are not").short('x');
    OUTBOUND_PORTS = text("istio-outbound-ports", "", "Outbound ports that are captured, whatever the destination").short('q');
    OUTBOUND_PORTS_EXCLUDE = text("istio-local-outbound-ports-exclude", "", "Outbound ports that are not").short('o');
    KUBE_VIRT_INTERFACES = text("kube-virt-interfaces", "", "Interfaces whose inbound traffic is outbound traffic of a guest").short('k');
    TPROXY_MARK = text("istio-inbound-tproxy-mark", "1337", "Mark of packets for the proxy (TPROXY)").short('t');
    TPROXY_ROUTE_TABLE = text("istio-inbound-tproxy-route-table", "133", "Routing table of marked packets (TPROXY)").short('r');
    DRY_RUN = switch("dry-run", "Write rules to $DRY_RUN_FILE_PATH or standard output and change nothing").short('n');
    PROBE_PORT = text("iptables-probe-port", "15002", "Port that validation connects to").kind(Kind::Number);
    PROBE_TIMEOUT = text("probe-timeout", "5s", "How long validation tries").kind(Kind::Duration);
    SKIP_RULE_APPLY = switch("skip-rule-apply", "Program nothing");
    RUN_VALIDATION = switch("run-validation", "Prove that traffic is redirected; exit code 126 if it is not");
    REDIRECT_DNS = switch("redirect-dns", "Send DNS of the resolvers in /etc/resolv.conf to the agent").env(Env::OwnThen("ISTIO_META_DNS_CAPTURE"));
    DROP_INVALID = switch("drop-invalid", "Drop packets that conntrack cannot place").env(Env::OwnThen("INVALID_DROP"));
    DUAL_STACK = switch("dual-stack", "Any IPv6 address means IPv6 rules, not only the first address").env(Env::OwnThen("ISTIO_DUAL_STACK"));
    CAPTURE_ALL_DNS = switch("capture-all-dns", "With --redirect-dns: all of port 53");
    NETWORK_NAMESPACE = text("network-namespace", "", "Namespace to work in (default: the own one)");
    CNI_MODE = switch("cni-mode", "Work from the node's file system");
    RECONCILE = switch("reconcile", "Drop all traffic while rules that differ are replaced by the iptables tools; other back ends replace in one transaction");
    CLEANUP_ONLY = switch("cleanup-only", "Remove redirection");
    FORCE_APPLY = switch("force-apply", "Apply although the rules are there");
    NATIVE_NFTABLES = switch("native-nftables", "Tables inet istio-proxy-* instead of iptables'");
    FORCE_IPTABLES_BINARY = text("force-iptables-binary", "", "legacy or nft");

    LOG_OUTPUT_LEVEL = log("log_output_level", Kind::Text, "SCOPE:LEVEL,…; the level of scope default or all counts");
    LOG_AS_JSON = log("log_as_json", Kind::Bool, "Log JSON");
    LOG_TARGET = log("log_target", Kind::Text, "Accepted; logs go to standard error");
    LOG_STACKTRACE_LEVEL = log("log_stacktrace_level", Kind::Text, "Accepted");
    LOG_CALLER = log("log_caller", Kind::Text, "Accepted");
    VKLOG = log("vklog", Kind::Text, "Accepted");

    BACKEND = text("backend", "auto", "auto, nft-compat, nft, iptables-nft or iptables-legacy").env(Env::Only("MILLRACE_BACKEND"));
    VALIDATE_PATHS = text("validate-paths", "report", "What validation does about paths that upstream's probe cannot see: off, report, or enforce (exit code 126)").env(Env::Only("MILLRACE_VALIDATE_PATHS"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_derive_their_variable() {
        for (at, flag) in ALL.iter().enumerate() {
            let twin = ALL
                .iter()
                .skip(at + 1)
                .find(|other| other.name == flag.name || (flag.short.is_some() && other.short == flag.short));
            assert_eq!(twin, None, "{}", flag.name);
        }
        assert_eq!(ENVOY_PORT.variables(), [""; 0]);
        assert_eq!(PROXY_UID.variables(), ["PROXY_UID"]);
        assert_eq!(REDIRECT_DNS.variables(), ["REDIRECT_DNS", "ISTIO_META_DNS_CAPTURE"]);
        assert_eq!(BACKEND.variables(), ["MILLRACE_BACKEND"]);
    }
}
