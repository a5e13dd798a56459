// SPDX-License-Identifier: Apache-2.0
//! Pods and the messages that carry them.

use proptest::collection::btree_map;
use proptest::prelude::*;
use protocol::agent::{PodKey, Reply, Request, RequestKind, Response, decode_line, encode_line};
use protocol::pod::PodFacts;
use serde_json::Value;

use crate::strategies::{json, pod};

fn key() -> impl Strategy<Value = PodKey> {
    (".{0,8}", ".{0,8}", ".{0,8}", ".{0,8}", ".{0,8}").prop_map(
        |(namespace, name, uid, container_id, network)| PodKey {
            namespace,
            name,
            uid,
            container_id,
            network,
        },
    )
}

/// `line` with fields that a newer sender might add.
fn newer(line: &[u8], fields: std::collections::BTreeMap<String, Value>) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(line).unwrap();
    for (name, field) in fields {
        value[name] = field;
    }
    format!("{value}\n").into_bytes()
}

proptest! {
    #[test]
    fn a_pod_survives_its_encoding(pod in pod()) {
        let text = serde_json::to_string(&pod).unwrap();
        prop_assert_eq!(serde_json::from_str::<PodFacts>(&text).unwrap(), pod);
    }

    #[test]
    fn requests_survive_the_wire_whatever_a_newer_sender_adds(
        version in any::<u32>(), key in key(), deleted in any::<bool>(), added in btree_map("x_[a-z]{0,4}", json(), 0..4)
    ) {
        let kind = if deleted { RequestKind::Deleted(key) } else { RequestKind::Pod(key) };
        let request = Request { version, kind };
        let line = encode_line(&request).unwrap();
        prop_assert!(line.iter().filter(|byte| **byte == b'\n').count() == 1, "one line");
        prop_assert_eq!(&decode_line::<Request>(&line).unwrap(), &request);
        prop_assert_eq!(&decode_line::<Request>(&newer(&line, added)).unwrap(), &request);
    }

    #[test]
    fn replies_survive_the_wire_whatever_a_newer_sender_adds(
        version in any::<u32>(), pod in pod(), added in btree_map("x_[a-z]{0,4}", json(), 0..4)
    ) {
        for response in [Response::Found { pod: Box::new(pod) }, Response::Unknown, Response::Noted] {
            let reply = Reply { version, response };
            let line = encode_line(&reply).unwrap();
            prop_assert_eq!(&decode_line::<Reply>(&line).unwrap(), &reply);
            prop_assert_eq!(&decode_line::<Reply>(&newer(&line, added.clone())).unwrap(), &reply);
        }
    }

    #[test]
    fn an_unknown_response_is_unsupported(name in "[a-z_]{1,12}", field in json()) {
        prop_assume!(!["found", "unknown", "noted"].contains(&name.as_str()));
        let line = format!("{{\"version\":1,\"response\":{},\"x\":{field}}}\n", Value::from(name));
        prop_assert_eq!(decode_line::<Reply>(line.as_bytes()).unwrap().response, Response::Unsupported);
    }
}
