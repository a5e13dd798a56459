// SPDX-License-Identifier: Apache-2.0
//! The owner of the network's list, who writes it while the agent does.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::node::{LIST, NET_DIR, files};

const FILE: &str = "10-lab.conflist";

/// True if a file lies beside the list that is to take its place.
pub(crate) fn is_about_to_be_replaced() -> bool {
    files(NET_DIR).iter().any(|path| path.to_string_lossy().contains(&format!("{FILE}.tmp.")))
}

/// Writes the list for the nth time.
pub(crate) fn writes(version: u32) {
    let next = Path::new(NET_DIR).join(".next");
    let text = LIST.replace(r#""name":"lab""#, &format!(r#""name":"lab","version":{version}"#));
    fs::write(&next, text).unwrap();
    fs::rename(next, Path::new(NET_DIR).join(FILE)).unwrap();
}

/// The nth of its texts that is there.
pub(crate) fn version() -> u32 {
    let text = fs::read(Path::new(NET_DIR).join(FILE)).unwrap();
    let list: Value = serde_json::from_slice(&text).unwrap();
    list["version"].as_u64().unwrap_or_default().try_into().unwrap()
}
