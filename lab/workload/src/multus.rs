// SPDX-License-Identifier: Apache-2.0
//! Stands in for Multus: a CNI plugin that is a runtime for others. It asks the API server for the pod and for the NetworkAttachmentDefinitions
//! that the pod's annotation names, and runs each network's plugins itself.
//!
//! | called as | it is |
//! |---|---|
//! | `multus` | Multus thin: all of it in one process for each call |
//! | `multus-shim` | the plugin of Multus thick, which hands the call to the daemon on the node |
//! | `workload multus-daemon` | that daemon |
//!
//! | module | noun |
//! |---|---|
//! | [`conf`] | its configuration |
//! | [`selection`] | networks that a pod's annotation names |
//! | [`api`] | the API server, by a kubeconfig |
//! | [`network`] | a network: plugins, and where they are configured |
//! | [`invoke`] | calls of a network's plugins, as CNI's library makes them |
//! | [`kept`] | what it keeps of each sandbox for DEL |
//! | [`work`] | ADD and DEL |
//! | [`daemon`] | the socket between shim and daemon |
//! | [`places`] | where the node's paths are in the lab |

pub mod api;
pub mod conf;
pub mod daemon;
pub mod invoke;
pub mod kept;
pub mod network;
pub mod places;
pub mod selection;
pub mod work;

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// File names that make this binary the plugin.
pub const THIN: &str = "multus";
pub const SHIM: &str = "multus-shim";

/// Variable: file to which the calls of delegates are appended, for who counts them.
pub const RECORD: &str = "LAB_MULTUS_RECORD";

/// Code of an error that has none: whatever a delegate's was is lost.
const INTERNAL: u32 = 999;

/// A call of Multus.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Call {
    pub environment: BTreeMap<String, String>,
    /// Standard input.
    pub configuration: String,
}

impl Call {
    /// Variable, empty where it is absent.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.environment.get(name).map_or("", String::as_str)
    }

    /// Value of an argument of `CNI_ARGS`, empty where it is absent.
    #[must_use]
    pub fn argument(&self, name: &str) -> &str {
        let mut pairs = self.get("CNI_ARGS").split(';').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }
}

/// Runs the plugin on this process' environment and standard streams.
pub fn main(called_as: &str) -> ExitCode {
    let (output, code) = match answer(called_as == SHIM) {
        Ok(output) => (output, ExitCode::SUCCESS),
        Err(message) => {
            (json!({ "cniVersion": "1.0.0", "code": INTERNAL, "msg": message }), ExitCode::FAILURE)
        }
    };
    let printed = if output.is_null() { Ok(()) } else { writeln!(io::stdout().lock(), "{output}") };
    if printed.is_ok() { code } else { ExitCode::FAILURE }
}

fn answer(is_shim: bool) -> Result<Value, String> {
    let mut call = Call { environment: std::env::vars().collect(), ..Call::default() };
    io::stdin().read_to_string(&mut call.configuration).map_err(|error| error.to_string())?;
    if call.get("CNI_COMMAND") == "VERSION" {
        let known = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];
        return Ok(json!({ "cniVersion": "1.1.0", "supportedVersions": known }));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        if is_shim {
            return daemon::hand_over(&call).await;
        }
        let places = places::Places::of(call.get(places::PLACES));
        work::carry_out(&call, &places).await
    })
}
