// SPDX-License-Identifier: Apache-2.0
//! Bodies in Kubernetes' protobuf, as kubectl 1.32 and later sends them where it has a typed client: `auth can-i`, `create token`, `create
//! namespace` and the like; and Helm for the secrets that it keeps releases in. Only kinds of the table below are read; answers are JSON, which every client takes as well.
//!
//! Field numbers are those of `generated.proto` in `k8s.io/api` and `k8s.io/apimachinery`; what is not in the table is left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Begins every body.
const MAGIC: &[u8] = b"k8s\0";

/// Type of a field.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Number,
    Flag,
    Message(&'static [Field]),
    Texts,
    /// From text to text.
    TextMap,
    /// From text to bytes, which JSON has in base64.
    BytesMap,
}

type Field = (u64, &'static str, Shape);

use Shape::{BytesMap, Flag, Message, Number, Text, TextMap, Texts};

const METADATA: &[Field] = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (11, "labels", TextMap),
    (12, "annotations", TextMap),
];
const ATTRIBUTES: &[Field] = &[
    (1, "namespace", Text),
    (2, "verb", Text),
    (3, "group", Text),
    (4, "version", Text),
    (5, "resource", Text),
    (6, "subresource", Text),
    (7, "name", Text),
];
const BOUND: &[Field] = &[(1, "kind", Text), (2, "apiVersion", Text), (3, "name", Text), (4, "uid", Text)];
const TOKEN: &[Field] =
    &[(1, "audiences", Texts), (4, "expirationSeconds", Number), (3, "boundObjectRef", Message(BOUND))];
const DELETE: &[Field] = &[(1, "gracePeriodSeconds", Number), (4, "propagationPolicy", Text)];

/// Fields of a kind, by `apiVersion` and `kind`.
fn fields(api_version: &str, kind: &str) -> Option<&'static [Field]> {
    Some(match (api_version, kind) {
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => {
            &[(2, "spec", Message(&[(1, "resourceAttributes", Message(ATTRIBUTES))]))]
        }
        ("authentication.k8s.io/v1", "TokenRequest") => {
            &[(1, "metadata", Message(METADATA)), (2, "spec", Message(TOKEN))]
        }
        ("policy/v1", "Eviction") => {
            &[(1, "metadata", Message(METADATA)), (2, "deleteOptions", Message(DELETE))]
        }
        ("v1", "DeleteOptions") => DELETE,
        ("v1", "Secret") => &[
            (1, "metadata", Message(METADATA)),
            (2, "data", BytesMap),
            (3, "type", Text),
            (5, "immutable", Flag),
        ],
        ("v1", "Namespace" | "ServiceAccount") => &[(1, "metadata", Message(METADATA))],
        ("v1", "ConfigMap") => {
            &[(1, "metadata", Message(METADATA)), (2, "data", TextMap), (4, "immutable", Flag)]
        }
        _ => return None,
    })
}

/// A body as JSON; `None` if it is malformed, or of a kind that is not in the table.
pub(crate) fn json(body: &[u8]) -> Option<Value> {
    const TYPE: &[Field] = &[(1, "apiVersion", Text), (2, "kind", Text)];
    let mut parts = Reader(body.strip_prefix(MAGIC)?);
    let (mut kind, mut raw) = (Value::Null, None);
    while !parts.0.is_empty() {
        match parts.field()? {
            (1, Content::Bytes(bytes)) => kind = message(bytes, TYPE)?,
            (2, Content::Bytes(bytes)) => raw = Some(bytes),
            _ => {}
        }
    }
    let (version, name) = (kind["apiVersion"].as_str()?, kind["kind"].as_str()?);
    let mut object = message(raw?, fields(version, name)?)?;
    (object["apiVersion"], object["kind"]) = (json!(version), json!(name));
    Some(object)
}

fn message(bytes: &[u8], fields: &[Field]) -> Option<Value> {
    let mut object = Map::new();
    let mut parts = Reader(bytes);
    while !parts.0.is_empty() {
        let (number, content) = parts.field()?;
        let Some((_, name, shape)) = fields.iter().find(|(known, _, _)| *known == number) else { continue };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        match (shape, content) {
            // Kubernetes writes what is empty as well.
            (Text, Content::Bytes(b"")) => {}
            (Text, Content::Bytes(bytes)) => drop(object.insert((*name).to_owned(), text(bytes)?.into())),
            (Number, Content::Number(number)) => drop(object.insert((*name).to_owned(), number.into())),
            (Flag, Content::Number(number)) => drop(object.insert((*name).to_owned(), (number != 0).into())),
            (Message(inner), Content::Bytes(bytes)) => {
                object.insert((*name).to_owned(), message(bytes, inner)?);
            }
            (Texts, Content::Bytes(bytes)) => {
                let list = object.entry(*name).or_insert_with(|| json!([]));
                list.as_array_mut()?.push(text(bytes)?.into());
            }
            (TextMap | BytesMap, Content::Bytes(bytes)) => {
                let (key, value) = entry(bytes)?;
                let value = match shape {
                    BytesMap => STANDARD.encode(value),
                    _ => text(value)?,
                };
                let map = object.entry(*name).or_insert_with(|| json!({}));
                map.as_object_mut()?.insert(text(key)?, value.into());
            }
            _ => return None,
        }
    }
    Some(Value::Object(object))
}

/// Key and value of an entry of a map.
fn entry(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut key, mut value) = (None, &b""[..]);
    let mut parts = Reader(bytes);
    while !parts.0.is_empty() {
        match parts.field()? {
            (1, Content::Bytes(bytes)) => key = Some(bytes),
            (2, Content::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    Some((key?, value))
}

enum Content<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Wire format: varints and byte strings, which are all that the fields above are made of.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn field(&mut self) -> Option<(u64, Content<'a>)> {
        let tag = self.varint()?;
        let content = match tag & 7 {
            0 => Content::Number(self.varint()?),
            1 => Content::Bytes(self.take(8)?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Content::Bytes(self.take(length)?)
            }
            5 => Content::Bytes(self.take(4)?),
            _ => return None,
        };
        Some((tag >> 3, content))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn body(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let kind = [bytes(1, version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), bytes(1, &kind), bytes(2, raw), bytes(3, b""), bytes(4, b"")].concat()
    }

    #[test]
    fn a_question_for_rights_is_read() {
        let attributes = [bytes(1, b"shop"), bytes(2, b"create"), bytes(3, b""), bytes(5, b"pods")].concat();
        let raw = [bytes(1, &bytes(1, b"")), bytes(2, &bytes(1, &attributes))].concat();
        let read = json(&body("authorization.k8s.io/v1", "SelfSubjectAccessReview", &raw)).unwrap();
        let expected = json!({ "namespace": "shop", "verb": "create", "resource": "pods" });
        assert_eq!(read["spec"]["resourceAttributes"], expected);
    }

    #[test]
    fn maps_lists_and_numbers_are_read() {
        let entry = [bytes(1, b"a"), bytes(2, b"b")].concat();
        let map =
            json(&body("v1", "ConfigMap", &[bytes(1, &bytes(1, b"x")), bytes(2, &entry)].concat())).unwrap();
        assert_eq!(
            map,
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" }, "data": { "a": "b" } })
        );
        let release =
            [bytes(2, &[bytes(1, b"release"), bytes(2, b"\xff\0")].concat()), bytes(3, b"helm.sh")].concat();
        let secret = json(&body("v1", "Secret", &release)).unwrap();
        let expected =
            json!({ "apiVersion": "v1", "kind": "Secret", "type": "helm.sh", "data": { "release": "/wA=" } });
        assert_eq!(secret, expected);
        let spec = [bytes(1, b"api"), vec![4 << 3, 0x90, 0x1c]].concat();
        let token = json(&body("authentication.k8s.io/v1", "TokenRequest", &bytes(2, &spec))).unwrap();
        assert_eq!(token["spec"], json!({ "audiences": ["api"], "expirationSeconds": 3600 }));
    }

    #[test]
    fn what_is_cut_off_or_of_another_kind_is_not_read() {
        let whole = body("v1", "Namespace", &bytes(1, &bytes(1, b"shop")));
        assert!(json(&whole).is_some());
        for end in 0..whole.len() - 4 {
            assert!(json(&whole[..end]).is_none(), "{end}");
        }
        assert!(json(&body("apps/v1", "Deployment", b"")).is_none());
        assert!(json(b"{}").is_none());
    }
}
