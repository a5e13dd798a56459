// SPDX-License-Identifier: Apache-2.0
//! Reads a [`Reply`] in one pass. What serde derives for a tag beside the fields that it decides about keeps a tree of everything
//! first; here, a pod is read where it stands, as the tag comes before it unless an agent writes its keys in another order.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::agent::{Reply, Response};
use crate::pod::PodFacts;

/// A tag, as far as we know it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Found,
    Unknown,
    Noted,
    Other,
}

impl Kind {
    fn of(text: &str) -> Self {
        match text {
            "found" => Self::Found,
            "unknown" => Self::Unknown,
            "noted" => Self::Noted,
            _ => Self::Other,
        }
    }
}

/// A pod, before or after it is known what it belongs to.
enum Pod {
    Read(Box<PodFacts>),
    Early(Value),
    OfNoUse,
}

impl Pod {
    fn read<E: Error>(self) -> Result<Box<PodFacts>, E> {
        match self {
            Self::Read(pod) => Ok(pod),
            Self::Early(value) => Box::deserialize(value).map_err(E::custom),
            Self::OfNoUse => Err(E::missing_field("pod")),
        }
    }
}

impl<'de> Deserialize<'de> for Reply {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        decoder.deserialize_map(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Reply;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reply")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Reply, A::Error> {
        let (mut version, mut kind, mut pod) = (None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "version" => once("version", &mut version, map.next_value()?)?,
                "response" => once("response", &mut kind, Kind::of(&map.next_value::<String>()?))?,
                "pod" => {
                    let value = match kind {
                        Some(Kind::Found) => Pod::Read(map.next_value()?),
                        Some(_) => map.next_value::<IgnoredAny>().map(|_| Pod::OfNoUse)?,
                        None => Pod::Early(map.next_value()?),
                    };
                    once("pod", &mut pod, value)?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let version = version.ok_or_else(|| A::Error::missing_field("version"))?;
        let response = match kind.ok_or_else(|| A::Error::missing_field("response"))? {
            Kind::Found => Response::Found { pod: pod.unwrap_or(Pod::OfNoUse).read()? },
            Kind::Unknown => Response::Unknown,
            Kind::Noted => Response::Noted,
            Kind::Other => Response::Unsupported,
        };
        Ok(Reply { version, response })
    }
}

fn once<T, E: Error>(name: &'static str, place: &mut Option<T>, value: T) -> Result<(), E> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}
