// SPDX-License-Identifier: Apache-2.0
//! Failures of the plugin under test that runtimes only log, so that nobody hears of them before the end of a scenario: a DEL that fails after a
//! failed ADD or of a stale attachment, and crashes.

use cluster::{CniAnswer, CniCall};
use parking_lot::Mutex;

use super::call::{NOT_FOUND, failure};
use super::chain::ChainError;
use crate::error::Error;

/// Exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

/// Failures of a node's plugin under test.
#[derive(Debug)]
pub struct Logged {
    under_test: &'static str,
    failures: Mutex<Vec<String>>,
}

impl Logged {
    /// None.
    #[must_use]
    pub fn new(under_test: &'static str) -> Self {
        Self { under_test, failures: Mutex::default() }
    }

    /// Failures so far.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        self.failures.lock().clone()
    }

    /// Drops a failed DEL as the runtime does. One of a binary that is not there is no call.
    pub(super) fn dropped(&self, when: &str, called: Result<(), ChainError>) -> Result<(), Error> {
        if let Err(ChainError::Chain(failure)) = &called {
            let is_missing = failure.message.starts_with(NOT_FOUND);
            if failure.plugin.as_deref() == Some(self.under_test) && !is_missing {
                self.add(format!("{when}: {failure}"));
            }
        }
        only_lab(called)
    }

    /// Notes a plugin's answer if it crashed.
    pub(super) fn answered(&self, call: &CniCall, answer: &CniAnswer) {
        if call.plugin == self.under_test && is_crash(answer) {
            self.add(format!("{} crashed: {}", call.command(), failure(call, answer)));
        }
    }

    fn add(&self, failure: String) {
        let mut failures = self.failures.lock();
        if !failures.contains(&failure) {
            failures.push(failure);
        }
    }
}

/// True if a plugin ended otherwise than CNI has it: without an error on its standard output.
fn is_crash(answer: &CniAnswer) -> bool {
    match answer.exit {
        Some(0) => false,
        None | Some(PANICKED) => true,
        Some(_) => !answer.json().is_object(),
    }
}

/// A call whose failure nobody acts on.
pub(super) fn only_lab(called: Result<(), ChainError>) -> Result<(), Error> {
    match called {
        Err(ChainError::Lab(error)) => Err(error),
        Ok(()) | Err(ChainError::Chain(_)) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cluster::ChainFailure;

    use super::*;

    fn failed(plugin: &str, message: &str) -> ChainFailure {
        ChainFailure { plugin: Some(plugin.to_owned()), code: None, message: message.to_owned() }
    }

    #[test]
    fn a_failed_del_of_the_plugin_under_test_is_kept_and_that_of_no_other() {
        let logged = Logged::new("p");
        for (plugin, message) in [("p", "refused"), ("p", "failed to find plugin"), ("q", "refused")] {
            logged.dropped("DEL after ADD", Err(failed(plugin, message).into())).unwrap();
        }
        logged.dropped("DEL after ADD", Ok(())).unwrap();
        assert_eq!(logged.failures(), ["DEL after ADD: refused"]);
        let lab = Err(ChainError::Lab(Error::Missing("pipe".to_owned())));
        assert!(logged.dropped("DEL after ADD", lab).is_err());
    }

    #[test]
    fn a_crash_is_an_end_without_an_error_of_cni() {
        let crashes = |command: &str, exit, stdout: &str| {
            let logged = Logged::new("p");
            let (stdout, stderr, waited) = (stdout.to_owned(), String::new(), Duration::ZERO);
            let answer = CniAnswer { exit, stdout, stderr, took: waited, waited };
            let env = [("CNI_COMMAND".to_owned(), command.to_owned())].into();
            logged.answered(&CniCall { plugin: "p".to_owned(), env, stdin: Vec::new() }, &answer);
            logged.failures().len() == 1
        };
        let error = r#"{"code":11,"msg":"m"}"#;
        assert!(
            crashes("DEL", None, "") && crashes("GC", Some(101), error) && crashes("CHECK", Some(1), "oops")
        );
        assert!(crashes("ADD", None, ""), "whatever the next one does");
        assert!(!crashes("DEL", Some(1), error) && !crashes("CHECK", Some(0), ""));
    }
}
