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
}

const fn text(name: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag { name, short: None, env: Env::Own, kind: Kind::Text, default, help }
}

const fn switch(name: &'static str, help: &'static str) -> Flag {
    Flag { kind: Kind::Bool, ..text(name, "false", help) }
}

/// Flag of the logging library, without variables.
const fn log(name: &'static str, kind: Kind, help: &'static str) -> Flag {
    Flag { kind, env: Env::None, ..text(name, "", help) }
}

macro_rules! flags {
    ($($(#[$meta:meta])* $name:ident = $flag:expr;)*) => {
        $($(#[$meta])* pub static $name: Flag = $flag;)*
        /// Every flag, in the order of `--help`.
        pub static ALL: &[&Flag] = &[$(&$name),*];
    };
}

flags! {
    /// `--envoy-port`, the one without a variable.
    ENVOY_PORT = Flag { short: Some('p'), env: Env::None, ..text("envoy-port", "15001", "Port to which outbound TCP traffic goes") };
    /// `--inbound-capture-port`
    INBOUND_CAPTURE_PORT = Flag { short: Some('z'), ..text("inbound-capture-port", "15006", "Port to which inbound TCP traffic goes") };
    /// `--inbound-tunnel-port`
    INBOUND_TUNNEL_PORT = Flag { short: Some('e'), ..text("inbound-tunnel-port", "15008", "Port of tunnels, never captured") };
    /// `--proxy-uid`
    PROXY_UID = Flag { short: Some('u'), ..text("proxy-uid", "", "Users whose traffic is not captured (default: user $ENVOY_USER, else 1337)") };
    /// `--proxy-gid`
    PROXY_GID = Flag { short: Some('g'), ..text("proxy-gid", "", "Groups whose traffic is not captured (default: as --proxy-uid)") };
    /// `--istio-inbound-interception-mode`
    MODE = Flag { short: Some('m'), ..text("istio-inbound-interception-mode", "", "REDIRECT or TPROXY") };
    /// `--istio-inbound-ports`
    INBOUND_PORTS = Flag { short: Some('b'), ..text("istio-inbound-ports", "", "Inbound ports that are captured; * for all, nothing for none") };
    /// `--istio-local-exclude-ports`
    LOCAL_EXCLUDE_PORTS = Flag { short: Some('d'), ..text("istio-local-exclude-ports", "", "Inbound ports that are not; counts beside *") };
    /// `--istio-exclude-interfaces`
    EXCLUDE_INTERFACES = Flag { short: Some('c'), ..text("istio-exclude-interfaces", "", "Interfaces whose traffic is left alone") };
    /// `--istio-service-cidr`
    SERVICE_CIDR = Flag { short: Some('i'), ..text("istio-service-cidr", "", "Outbound destinations that are captured; * for all, nothing for none") };
    /// `--istio-service-exclude-cidr`
    SERVICE_EXCLUDE_CIDR = Flag { short: Some('x'), ..text("istio-service-exclude-cidr", "", "Outbound destinations that are not") };
    /// `--istio-outbound-ports`
    OUTBOUND_PORTS = Flag { short: Some('q'), ..text("istio-outbound-ports", "", "Outbound ports that are captured, whatever the destination") };
    /// `--istio-local-outbound-ports-exclude`
    OUTBOUND_PORTS_EXCLUDE = Flag { short: Some('o'), ..text("istio-local-outbound-ports-exclude", "", "Outbound ports that are not") };
    /// `--kube-virt-interfaces`
    KUBE_VIRT_INTERFACES = Flag { short: Some('k'), ..text("kube-virt-interfaces", "", "Interfaces whose inbound traffic is outbound traffic of a guest") };
    /// `--istio-inbound-tproxy-mark`
    TPROXY_MARK = Flag { short: Some('t'), ..text("istio-inbound-tproxy-mark", "1337", "Mark of packets for the proxy (TPROXY)") };
    /// `--istio-inbound-tproxy-route-table`
    TPROXY_ROUTE_TABLE = Flag { short: Some('r'), ..text("istio-inbound-tproxy-route-table", "133", "Routing table of marked packets (TPROXY)") };
    /// `--dry-run`
    DRY_RUN = Flag { short: Some('n'), ..switch("dry-run", "Write rules to $DRY_RUN_FILE_PATH or standard output and change nothing") };
    /// `--iptables-probe-port`
    PROBE_PORT = Flag { kind: Kind::Number, ..text("iptables-probe-port", "15002", "Port that validation connects to") };
    /// `--probe-timeout`
    PROBE_TIMEOUT = Flag { kind: Kind::Duration, ..text("probe-timeout", "5s", "How long validation tries") };
    /// `--skip-rule-apply`
    SKIP_RULE_APPLY = switch("skip-rule-apply", "Program nothing");
    /// `--run-validation`
    RUN_VALIDATION = switch("run-validation", "Prove that traffic is redirected; exit code 126 if it is not");
    /// `--redirect-dns`
    REDIRECT_DNS = Flag { env: Env::OwnThen("ISTIO_META_DNS_CAPTURE"), ..switch("redirect-dns", "Send DNS of the resolvers in /etc/resolv.conf to the agent") };
    /// `--drop-invalid`
    DROP_INVALID = Flag { env: Env::OwnThen("INVALID_DROP"), ..switch("drop-invalid", "Drop packets that conntrack cannot place") };
    /// `--dual-stack`
    DUAL_STACK = Flag { env: Env::OwnThen("ISTIO_DUAL_STACK"), ..switch("dual-stack", "Any IPv6 address means IPv6 rules, not only the first address") };
    /// `--capture-all-dns`
    CAPTURE_ALL_DNS = switch("capture-all-dns", "With --redirect-dns: all of port 53");
    /// `--network-namespace`
    NETWORK_NAMESPACE = text("network-namespace", "", "Namespace to work in (default: the own one)");
    /// `--cni-mode`
    CNI_MODE = switch("cni-mode", "Work from the node's file system");
    /// `--reconcile`
    RECONCILE = switch("reconcile", "Drop all traffic while rules that differ are replaced by the iptables tools; other back ends replace in one transaction");
    /// `--cleanup-only`
    CLEANUP_ONLY = switch("cleanup-only", "Remove redirection");
    /// `--force-apply`
    FORCE_APPLY = switch("force-apply", "Apply although the rules are there");
    /// `--native-nftables`
    NATIVE_NFTABLES = switch("native-nftables", "Tables inet istio-proxy-* instead of iptables'");
    /// `--force-iptables-binary`
    FORCE_IPTABLES_BINARY = text("force-iptables-binary", "", "legacy or nft");

    /// `--log_output_level`
    LOG_OUTPUT_LEVEL = log("log_output_level", Kind::Text, "SCOPE:LEVEL,…; the level of scope default or all counts");
    /// `--log_as_json`
    LOG_AS_JSON = log("log_as_json", Kind::Bool, "Log JSON");
    /// `--log_target`
    LOG_TARGET = log("log_target", Kind::Text, "Accepted; logs go to standard error");
    /// `--log_stacktrace_level`
    LOG_STACKTRACE_LEVEL = log("log_stacktrace_level", Kind::Text, "Accepted");
    /// `--log_caller`
    LOG_CALLER = log("log_caller", Kind::Text, "Accepted");
    /// `--vklog`
    VKLOG = log("vklog", Kind::Text, "Accepted");

    /// `--backend`
    BACKEND = Flag { env: Env::Only("MILLRACE_BACKEND"), ..text("backend", "auto", "auto, nft-compat, nft, iptables-nft or iptables-legacy") };
    /// `--validate-paths`
    VALIDATE_PATHS = Flag { env: Env::Only("MILLRACE_VALIDATE_PATHS"), ..text("validate-paths", "report", "What validation does about paths that upstream's probe cannot see: off, report, or enforce (exit code 126)") };
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
