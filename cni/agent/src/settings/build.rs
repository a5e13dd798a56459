// SPDX-License-Identifier: Apache-2.0
//! From texts to [`Settings`]: every mistake is noted, none ends the reading. Pure.

use std::path::PathBuf;

use super::kind::{self, Problem};
use super::layers::{Origin, SettingValue, Values};
use super::mistake::{Instead, Mistake};
use super::{Settings, template};
use manifests::setting::{Kind, Setting};
use manifests::table;

/// Mount of a pod's service account.
pub const ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Content of `CNI_NETWORK_CONFIG_FILE`, if that is set, or the error of reading it.
pub type TemplateText = Option<Result<String, String>>;

/// Facts found on the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    pub hostname: String,
    /// Namespace of the service account; empty if unknown.
    pub account_namespace: String,
    /// The present entry of ours has the STATUS gate.
    pub gated: bool,
    pub template_file: TemplateText,
}

/// Builds the settings, and collects malformed values.
#[must_use]
pub fn build(values: &Values, found: &NodeFacts) -> (Settings, Vec<Mistake>) {
    let mut reader = Reader { values, mistakes: vec![] };
    let own = reader.own(found);
    let log = reader.logs();
    let kubeconfig = reader.kubeconfig();
    let places = reader.places();
    let mut settings = Settings {
        chain: reader.chain(),
        entry: reader.entry(&own, &log),
        repair: reader.repair(&own),
        monitoring_port: reader.read(&table::MONITORING_PORT, kind::port, Some(15014)),
        always_uninstall: reader.boolean(&table::ALWAYS_UNINSTALL),
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

pub(super) struct Reader<'a> {
    values: &'a Values,
    mistakes: Vec<Mistake>,
}

impl Reader<'_> {
    pub(super) fn value(&self, key: &'static Setting) -> SettingValue {
        let default = || SettingValue { text: key.default.to_owned(), origin: Origin::Default };
        self.values.get(key).cloned().unwrap_or_else(default)
    }

    pub(super) fn text(&self, key: &'static Setting) -> String {
        self.value(key).text
    }

    pub(super) fn path(&self, key: &'static Setting) -> PathBuf {
        self.text(key).into()
    }

    /// Reads a value; if it is none, `instead` holds. A flag that is wrong is not guessed at: upstream ends there.
    pub(super) fn read<T: std::fmt::Debug>(
        &mut self,
        key: &'static Setting,
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
            Kind::FileName | Kind::OpenList | Kind::Template | Kind::LabelSelector | Kind::FieldSelector => {
                Instead::NoEntry
            }
            _ => Instead::Holds(key.default.to_owned()),
        };
        let instead_told = if value.origin == Origin::Flag { Instead::NoEntry } else { guess };
        self.mistakes.push(Mistake { key, value, problem, instead: instead_told });
        instead
    }

    /// Malformed is false, as in upstream's library.
    pub(super) fn boolean(&mut self, key: &'static Setting) -> bool {
        self.read(key, kind::boolean, false)
    }

    fn own_taint(&mut self) -> Option<String> {
        let named = Some(self.text(&table::TAINT_NAME)).filter(|name| !name.is_empty());
        let on = self.boolean(&table::TAINT_OWN_NODE);
        on.then(|| named.unwrap_or_else(|| table::TAINT_NAME.default.to_owned()))
    }

    /// The template with its placeholders replaced; the file's wins over the text.
    fn template(&mut self, settings: &Settings, found: &NodeFacts) -> Option<String> {
        let file = found.template_file.as_ref();
        let key: &'static Setting = if file.is_some() { &table::TEMPLATE_FILE } else { &table::TEMPLATE };
        let text = match file.cloned() {
            None => Ok(self.text(key)),
            Some(Ok(text)) => Ok(text),
            Some(Err(why)) => Err(Problem::File(why)),
        };
        let run_dir = settings.places.run_dir.display();
        let server = &settings.kubeconfig.server;
        let node = &settings.own.node;
        let facts = template::PlaceholderValues {
            log_level: &settings.entry.log_level,
            kubeconfig: &format!("{run_dir}/istio-cni-kubeconfig"),
            log_socket: &format!("{run_dir}/log.sock"),
            host: &server.host,
            port: &server.port,
            node: if node.is_empty() { &found.hostname } else { node },
        };
        let filled = text.and_then(|text| template::fill(&text, facts).map_err(Problem::Template));
        let told = |problem| {
            let value = self.value(key);
            self.mistakes.push(Mistake { key, value, problem, instead: Instead::NoEntry });
        };
        filled.map_err(told).ok()
    }
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
