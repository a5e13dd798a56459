// SPDX-License-Identifier: Apache-2.0
//! From texts to [`Settings`]: every mistake is noted, none ends the reading. Pure.

use std::path::PathBuf;

use super::key::{self, Key};
use super::kind::{self, Kind, Problem};
use super::layers::{Origin, Value, Values};
use super::mistake::{Instead, Mistake};
use super::{
    ChainSettings, EntrySettings, KubeconfigSettings, LogSettings, OwnPod, Places, Policy, RepairSettings,
    Settings, selectors, template,
};
use crate::log::Levels;

/// Mount of a pod's service account.
pub const ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Content of `CNI_NETWORK_CONFIG_FILE`, if that is set, or the error of reading it.
pub type TemplateText = Option<Result<String, String>>;

/// Facts found on the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    pub hostname: String,
    /// Namespace of the service account; empty if unknown.
    pub account_namespace: String,
    /// The present entry of ours has the STATUS gate.
    pub gated: bool,
    pub template_file: TemplateText,
}

/// Builds the settings, and collects malformed values.
#[must_use]
pub fn build(values: &Values, found: &Found) -> (Settings, Vec<Mistake>) {
    let mut reader = Reader { values, mistakes: vec![] };
    let own = reader.own(found);
    let log = reader.logs();
    let kubeconfig = reader.kubeconfig();
    let places = reader.places();
    let mut settings = Settings {
        chain: reader.chain(),
        entry: reader.entry(&own, &log),
        repair: reader.repair(&own),
        monitoring_port: reader.read(&key::MONITORING_PORT, kind::port, Some(15014)),
        always_uninstall: reader.boolean(&key::ALWAYS_UNINSTALL),
        own_taint: reader.own_taint(),
        blocked: vec![],
        places,
        kubeconfig,
        own,
        log,
    };
    settings.chain.template = reader.template(&settings, found);
    settings.blocked = reader.mistakes.iter().filter(|one| one.blocks()).map(ToString::to_string).collect();
    (settings, reader.mistakes)
}

struct Reader<'a> {
    values: &'a Values,
    mistakes: Vec<Mistake>,
}

impl Reader<'_> {
    fn value(&self, key: &'static Key) -> Value {
        let default = || Value { text: key.default.to_owned(), origin: Origin::Default };
        self.values.get(key).cloned().unwrap_or_else(default)
    }

    fn text(&self, key: &'static Key) -> String {
        self.value(key).text
    }

    fn path(&self, key: &'static Key) -> PathBuf {
        self.text(key).into()
    }

    /// Reads a value; if it is none, `instead` holds. A flag that is wrong is not guessed at: upstream ends there.
    fn read<T: std::fmt::Debug>(
        &mut self,
        key: &'static Key,
        parse: fn(&str) -> Result<T, Problem>,
        instead: T,
    ) -> T {
        let value = self.value(key);
        let problem = match parse(&value.text) {
            Ok(read) => return read,
            Err(problem) => problem,
        };
        let guess = match key.kind {
            Kind::Bool => Instead::Holds("false".to_owned()),
            Kind::FileName | Kind::Selectors | Kind::Template => Instead::NoEntry,
            _ => Instead::Holds(key.default.to_owned()),
        };
        let instead_told = if value.origin == Origin::Flag { Instead::NoEntry } else { guess };
        self.mistakes.push(Mistake { key, value, problem, instead: instead_told });
        instead
    }

    /// Malformed is false, as in upstream's library.
    fn boolean(&mut self, key: &'static Key) -> bool {
        self.read(key, kind::boolean, false)
    }

    fn own(&self, found: &Found) -> OwnPod {
        let said = |keys: &[&'static Key]| {
            keys.iter().map(|key| self.text(key)).find(|text| !text.is_empty()).unwrap_or_default()
        };
        let namespace = Some(said(&[&key::POD_NAMESPACE])).filter(|text| !text.is_empty());
        OwnPod {
            namespace: namespace.unwrap_or_else(|| found.account_namespace.clone()),
            name: said(&[&key::POD_NAME]),
            node: said(&[&key::NODE, &key::KUBERNETES_NODE, &key::REPAIR_NODE]),
            daemonset: said(&[&key::DAEMONSET]),
            node_addresses: vec![],
        }
    }

    fn places(&self) -> Places {
        Places {
            source_dir: "/opt/cni/bin".into(),
            target_dirs: vec!["/host/opt/cni/bin".into()],
            net_dir: self.path(&key::NET_DIR),
            run_dir: self.path(&key::RUN_DIR),
            account_dir: ACCOUNT_DIR.into(),
            netns_dir: "/host/var/run/netns".into(),
            node_netns_dir: self.path(&key::NETNS_DIR),
            cache_dir: "/host/var/lib/cni".into(),
            proc_dir: "/host/proc".into(),
        }
    }

    fn chain(&mut self) -> ChainSettings {
        let owned_name = self.read(&key::OWNED_NAME, kind::file_name, String::new());
        ChainSettings {
            conf_name: self.read(&key::CONF_NAME, kind::file_name, String::new()),
            chained: self.boolean(&key::CHAINED),
            owned: self.boolean(&key::OWNED),
            owned_name: if owned_name.is_empty() { key::OWNED_NAME.default.to_owned() } else { owned_name },
            group_read: self.boolean(&key::GROUP_READ),
            raise_version: self.boolean(&key::RAISE_VERSION),
            template: String::new(),
        }
    }

    fn entry(&mut self, own: &OwnPod, log: &LogSettings) -> EntrySettings {
        EntrySettings {
            log_level: kind::level_name(log.levels.of_plugin()).to_owned(),
            exclude_namespaces: kind::list(&self.text(&key::EXCLUDE_NAMESPACES)),
            pod_namespace: own.namespace.clone(),
            ambient_enabled: self.boolean(&key::AMBIENT),
            enablement_selectors: self.read(&key::SELECTORS, selectors::to_json, "[]".to_owned()),
            native_nftables: self.boolean(&key::NATIVE_NFTABLES),
            ambient_detection_retry: self.boolean(&key::AMBIENT_RETRY),
            status_gate: self.read(&key::STATUS_GATE, kind::gate, false),
            backend: self.read(&key::BACKEND, kind::backend, netfilter::Wish::Auto),
        }
    }

    fn kubeconfig(&mut self) -> KubeconfigSettings {
        let ca_file = self.path(&key::CA_FILE);
        let none = ca_file.as_os_str().is_empty();
        KubeconfigSettings {
            server: (
                self.text(&key::SERVICE_PROTOCOL),
                self.text(&key::SERVICE_HOST),
                self.text(&key::SERVICE_PORT),
            ),
            ca_file: if none { PathBuf::from(ACCOUNT_DIR).join("ca.crt") } else { ca_file },
            skip_verify: self.boolean(&key::SKIP_VERIFY),
            mode: self.read(&key::KUBECONFIG_MODE, kind::mode, 0o600),
        }
    }

    fn repair(&mut self, own: &OwnPod) -> RepairSettings {
        let modes = [
            (&key::REPAIR_PODS, Policy::Repair),
            (&key::DELETE_PODS, Policy::Delete),
            (&key::LABEL_PODS, Policy::Label),
        ];
        let node_name = Some(self.text(&key::REPAIR_NODE)).filter(|name| !name.is_empty());
        RepairSettings {
            enabled: self.boolean(&key::REPAIR),
            policies: modes
                .into_iter()
                .filter_map(|(key, policy)| self.boolean(key).then_some(policy))
                .collect(),
            fallback: self.read(&key::REPAIR_FALLBACK, kind::fallback, None),
            act_on_unredirected: self.boolean(&key::REPAIR_UNREDIRECTED),
            node_name: node_name.unwrap_or_else(|| own.node.clone()),
            sidecar_annotation: self.text(&key::SIDECAR_ANNOTATION),
            init_container: self.text(&key::INIT_CONTAINER),
            termination_message: self.text(&key::TERMINATION_MESSAGE).trim().to_owned(),
            exit_code: self.read(&key::EXIT_CODE, kind::number, 126),
            label_selectors: self.text(&key::LABEL_SELECTORS),
            field_selectors: self.text(&key::FIELD_SELECTORS),
            label: (self.text(&key::LABEL_KEY), self.text(&key::LABEL_VALUE)),
            exclude_namespaces: kind::list(&self.text(&key::EXCLUDE_NAMESPACES)).into_iter().collect(),
        }
    }

    fn own_taint(&mut self) -> Option<String> {
        let named = Some(self.text(&key::TAINT_NAME)).filter(|name| !name.is_empty());
        let on = self.boolean(&key::TAINT_OWN_NODE);
        on.then(|| named.unwrap_or_else(|| key::TAINT_NAME.default.to_owned()))
    }

    fn logs(&mut self) -> LogSettings {
        LogSettings {
            levels: self.read(&key::LOG_OUTPUT_LEVEL, kind::levels, Levels::default()),
            json: self.boolean(&key::LOG_AS_JSON),
        }
    }

    /// The template with its placeholders replaced; the file's wins over the text.
    fn template(&mut self, settings: &Settings, found: &Found) -> String {
        let file = found.template_file.as_ref();
        let key: &'static Key = if file.is_some() { &key::TEMPLATE_FILE } else { &key::TEMPLATE };
        let text = match file.cloned() {
            None => Ok(self.text(key)),
            Some(Ok(text)) => Ok(text),
            Some(Err(why)) => Err(Problem::File(why)),
        };
        let run_dir = settings.places.run_dir.display();
        let (_, host, port) = &settings.kubeconfig.server;
        let node = &settings.own.node;
        let facts = template::Facts {
            log_level: &settings.entry.log_level,
            kubeconfig: &format!("{run_dir}/istio-cni-kubeconfig"),
            log_socket: &format!("{run_dir}/log.sock"),
            host,
            port,
            node: if node.is_empty() { &found.hostname } else { node },
        };
        let filled = text.and_then(|text| template::fill(&text, facts).map_err(Problem::Template));
        filled.unwrap_or_else(|problem| {
            let value = self.value(key);
            self.mistakes.push(Mistake { key, value, problem, instead: Instead::NoEntry });
            String::new()
        })
    }
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
