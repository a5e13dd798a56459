// SPDX-License-Identifier: Apache-2.0
//! The two messages of the Container Runtime Interface that say what a runtime has loaded: the request `Status` with `verbose`, and its response.
//! A gRPC body is one frame: a byte for compression, the length in four, and a message of protocol buffers. Of that a few fields are read, by hand:
//! a library for gRPC would be larger than the agent's own code.
//!
//! | runtime | `info` of the response |
//! |---|---|
//! | containerd | `cniconfig`: the loaded lists, the directory, `max_conf_num`; `lastCNILoadStatus`: `OK`, or the error of the last look at the directory |
//! | CRI-O | the image of its sandboxes: nothing of networks |

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// Path of the method.
pub const STATUS: &str = "/runtime.v1.RuntimeService/Status";

/// Body of the request: `StatusRequest { verbose: true }`.
pub const VERBOSE: [u8; 7] = [0, 0, 0, 0, 2, 0x08, 1];

/// Longest body that is read; of a node with a hundred networks it is a few hundred KiB.
pub const MAX_BODY: usize = 4 << 20;

/// Field of `StatusResponse`: `map<string, string> info`.
const INFO: u64 = 2;
/// Fields of an entry of a map.
const KEY: u64 = 1;
const VALUE: u64 = 2;

/// Body that is no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CriError {
    /// Not one whole frame.
    #[error("read a gRPC frame")]
    Frame,
    /// The frame's message is compressed.
    #[error("read a gRPC frame that is compressed")]
    Compressed,
    /// Not protocol buffers.
    #[error("decode the message")]
    Message,
}

/// `info` of the response in a body.
///
/// # Errors
/// The body is malformed.
pub fn info(body: &[u8]) -> Result<BTreeMap<String, String>, CriError> {
    let mut info = BTreeMap::new();
    for field in Fields(message(body)?) {
        let (INFO, Field::Bytes(entry)) = field? else { continue };
        let (mut key, mut value) = (String::new(), String::new());
        for field in Fields(entry) {
            match field? {
                (KEY, Field::Bytes(text)) => key = utf8(text)?,
                (VALUE, Field::Bytes(text)) => value = utf8(text)?,
                _ => {}
            }
        }
        info.insert(key, value);
    }
    Ok(info)
}

/// Message of the only frame of a body.
fn message(body: &[u8]) -> Result<&[u8], CriError> {
    let Some((&[compressed, a, b, c, d], message)) = body.split_first_chunk::<5>() else {
        return Err(CriError::Frame);
    };
    if compressed != 0 {
        return Err(CriError::Compressed);
    }
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).map_err(|_| CriError::Frame)?;
    if message.len() == length { Ok(message) } else { Err(CriError::Frame) }
}

fn utf8(bytes: &[u8]) -> Result<String, CriError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| CriError::Message)
}

/// Value of a field; numbers are not read.
enum Field<'a> {
    Bytes(&'a [u8]),
    Number,
}

/// Fields of a message, with their numbers.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>), CriError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field().ok_or(CriError::Message);
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Field<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => self.varint().map(|_| Field::Number)?,
            1 => self.take(8).map(|_| Field::Number)?,
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Field::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Field::Number)?,
            // Groups, which nobody writes any more.
            _ => return None,
        };
        Some((tag >> 3, value))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// What containerd has loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadedNetworks {
    /// Directory of network configurations, as the node calls it.
    pub directory: String,
    /// `max_conf_num`: how many lists of the directory each pod is added to; 0 for all.
    pub most: i64,
    /// Networks that each pod is added to, without `lo`.
    pub networks: Vec<LoadedNetwork>,
    /// `lastCNILoadStatus`, unless it is `OK`.
    pub failure: Option<String>,
}

/// A list that is loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadedNetwork {
    /// Its `name`.
    pub name: String,
    /// Its plugins, as they stand in the list.
    pub plugins: Vec<Value>,
}

/// Reads containerd's `info`; `None` of a runtime that does not say what it has loaded.
#[must_use]
pub fn loaded(info: &BTreeMap<String, String>) -> Option<LoadedNetworks> {
    let config: CniConfig = serde_json::from_str(info.get("cniconfig")?).ok()?;
    let networks = config.networks.unwrap_or_default().into_iter().filter(|network| network.ifname != "lo");
    let failure = info.get("lastCNILoadStatus").filter(|status| *status != "OK").cloned();
    Some(LoadedNetworks {
        directory: config.directory,
        most: config.most,
        networks: networks.map(|network| network.config.into()).collect(),
        failure,
    })
}

/// go-cni's `ConfigResult`, as Go writes it.
#[derive(Deserialize)]
struct CniConfig {
    #[serde(rename = "PluginConfDir", default)]
    directory: String,
    #[serde(rename = "PluginMaxConfNum", default)]
    most: i64,
    #[serde(rename = "Networks", default)]
    networks: Option<Vec<Network>>,
}

#[derive(Deserialize)]
struct Network {
    #[serde(rename = "Config")]
    config: List,
    #[serde(rename = "IFName", default)]
    ifname: String,
}

#[derive(Deserialize)]
struct List {
    #[serde(rename = "Name", default)]
    name: String,
    #[serde(rename = "Plugins", default)]
    plugins: Option<Vec<Plugin>>,
}

#[derive(Deserialize)]
struct Plugin {
    #[serde(rename = "Source", default)]
    source: String,
}

impl From<List> for LoadedNetwork {
    fn from(list: List) -> Self {
        let plugins = list.plugins.unwrap_or_default();
        let parsed = plugins.iter().map(|plugin| serde_json::from_str(&plugin.source).unwrap_or_default());
        Self { name: list.name, plugins: parsed.collect() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn delimited(field: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![field << 3 | 2];
        let mut length = bytes.len();
        while length >= 0x80 {
            out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        out.push(u8::try_from(length).unwrap());
        out.extend(bytes);
        out
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap();
        [&[0], &length.to_be_bytes()[..], message].concat()
    }

    fn entry(key: &str, value: &str) -> Vec<u8> {
        delimited(2, &[delimited(1, key.as_bytes()), delimited(2, value.as_bytes())].concat())
    }

    #[test]
    fn the_request_is_a_frame_of_a_message_with_one_true_flag() {
        let fields: Vec<_> = Fields(message(&VERBOSE).unwrap()).map(Result::unwrap).collect();
        assert!(matches!(fields[..], [(1, Field::Number)]));
    }

    #[test]
    fn the_info_of_a_response_is_read_whatever_is_beside_it() {
        // A status with a condition, a handler, numbers of each width, and a value longer than a byte's length.
        let long = "x".repeat(300);
        let condition = delimited(1, &[delimited(1, b"NetworkReady"), vec![0x10, 1]].concat());
        let body = framed(
            &[
                delimited(1, &condition),
                entry("cniconfig", "{}"),
                vec![0x21, 1, 2, 3, 4, 5, 6, 7, 8, 0x2d, 1, 2, 3, 4, 0x30, 0xff, 1],
                entry("long", &long),
                delimited(3, b""),
            ]
            .concat(),
        );
        let info = info(&body).unwrap();
        assert_eq!(info.len(), 2);
        assert_eq!((info["cniconfig"].as_str(), info["long"].as_str()), ("{}", long.as_str()));
    }

    #[test]
    fn what_is_cut_off_or_something_else_is_an_error() {
        let whole = framed(&entry("a", "b"));
        for end in 0..whole.len() {
            assert!(info(&whole[..end]).is_err(), "{end}");
        }
        for (body, error) in [
            (framed(&[0x0b]), CriError::Message),
            (framed(&[0x12, 5, 1]), CriError::Message),
            (framed(&[0x80; 11]), CriError::Message),
            (framed(&delimited(2, &delimited(1, &[0xff]))), CriError::Message),
            (vec![1, 0, 0, 0, 0], CriError::Compressed),
            (vec![0, 0, 0, 0, 1], CriError::Frame),
            (vec![0, 0, 0, 0, 0, 0], CriError::Frame),
        ] {
            assert_eq!(info(&body), Err(error), "{body:?}");
        }
    }

    fn told(config: &Value, status: &str) -> Option<LoadedNetworks> {
        let info = [("cniconfig", config.to_string()), ("lastCNILoadStatus", status.to_owned())];
        loaded(&info.map(|(key, value)| (key.to_owned(), value)).into())
    }

    #[test]
    fn containerd_says_which_lists_it_has_loaded() {
        let list = |name: &str, plugins: &[Value]| {
            let plugins: Vec<_> = plugins
                .iter()
                .map(|plugin| json!({"Network": {"type": plugin["type"]}, "Source": plugin.to_string()}))
                .collect();
            json!({"Name": name, "CNIVersion": "1.0.0", "Plugins": plugins, "Source": "{}"})
        };
        let ours = json!({"type": "istio-cni", "exclude_namespaces": ["kube-system"]});
        let config = json!({
            "PluginDirs": ["/opt/cni/bin"], "PluginConfDir": "/etc/cni/net.d", "PluginMaxConfNum": 1, "Prefix": "eth",
            "Networks": [
                {"Config": list("cni-loopback", &[json!({"type": "loopback"})]), "IFName": "lo"},
                {"Config": list("kindnet", &[json!({"type": "ptp"}), ours.clone()]), "IFName": "eth0"},
            ],
        });
        let found = told(&config, "OK").unwrap();
        assert_eq!((found.directory.as_str(), found.most, found.failure), ("/etc/cni/net.d", 1, None));
        let plugins = vec![json!({"type": "ptp"}), ours];
        assert_eq!(found.networks, [LoadedNetwork { name: "kindnet".to_owned(), plugins }]);
    }

    #[test]
    fn one_that_has_loaded_nothing_says_why_and_another_runtime_says_nothing() {
        let nothing = json!({"PluginConfDir": "/etc/cni/net.d", "PluginMaxConfNum": 0, "Networks": null});
        let found = told(&nothing, "cni config load failed: no network config found").unwrap();
        assert!(found.networks.is_empty() && found.failure.unwrap().contains("no network config"));
        assert_eq!(loaded(&[("config".to_owned(), "{\"sandboxImage\":\"pause\"}".to_owned())].into()), None);
        assert_eq!(loaded(&[("cniconfig".to_owned(), "no JSON".to_owned())].into()), None);
    }
}
