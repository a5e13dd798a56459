// SPDX-License-Identifier: Apache-2.0
//! Everything that an operator may hand in, and how it becomes [`crate::Values`].
//!
//! | module | what it reads |
//! |---|---|
//! | [`helm`] | values of charts, old and new |
//! | [`operator`] | `IstioOperator` |
//! | [`servicemesh`] | `ServiceMesh` |
//! | [`set`] | `--set key=value` |
//! | [`control_plane`] | what of all that is the injector's, and whether it fits |
//! | [`install`] | all of them together |

pub mod control_plane;
mod former;
pub mod helm;
pub mod install;
pub mod operator;
pub mod servicemesh;
pub mod set;

use serde_json::{Map, Value};

use crate::layers::overlay;
use crate::mistake::{GivenValue, Mistake, Mistakes};
use crate::note::Note;
use crate::place::KeyPrefix;
use control_plane::ControlPlaneClaim;

pub use former::{TAINT_ENABLED, guide as former_guide, spellings as former_spellings};

/// An input, in the present spelling.
#[derive(Debug, Clone, PartialEq)]
pub struct Translated {
    /// A node agent is to be installed.
    pub installs: bool,
    pub values: Value,
    /// Namespace of the node agent.
    pub namespace: Option<GivenValue>,
    /// Hub of the whole mesh: that of the control plane.
    pub mesh_hub: Option<GivenValue>,
    /// Claims about the control plane.
    pub claims: Vec<ControlPlaneClaim>,
    /// Hints for the operator.
    pub notes: Vec<Note>,
    /// Prefix of values in messages.
    pub place: KeyPrefix,
}

impl Default for Translated {
    fn default() -> Self {
        Self {
            installs: false,
            values: Value::Object(Map::new()),
            namespace: None,
            mesh_hub: None,
            claims: Vec::new(),
            notes: Vec::new(),
            place: KeyPrefix::default(),
        }
    }
}

impl Translated {
    /// Overlays another input.
    pub fn absorb(&mut self, above: Self) {
        self.installs |= above.installs;
        overlay(&mut self.values, &above.values);
        self.namespace = above.namespace.or(self.namespace.take());
        self.mesh_hub = above.mesh_hub.or(self.mesh_hub.take());
        self.claims.extend(above.claims);
        self.notes.extend(above.notes);
        self.place = above.place;
    }
}

/// Keys of an optional map; rejects unknown ones.
///
/// # Errors
/// Not a map, or unknown keys.
fn keys(value: Option<&Value>, place: &str, known: &[&str]) -> Result<Map<String, Value>, Mistakes> {
    let map = map(value, place)?;
    let unknown = map.iter().filter(|(key, _)| !known.contains(&key.as_str())).map(|(key, value)| {
        let nearest = crate::check::closest(key, known.iter().copied()).map(str::to_owned);
        Mistake::Unknown { given: GivenValue::new(format!("{place}.{key}"), value.clone()), nearest }
    });
    Mistakes(unknown.collect()).none().map(|()| map)
}

/// An optional map; absent is empty.
fn map(value: Option<&Value>, place: &str) -> Result<Map<String, Value>, Mistakes> {
    match value {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map.clone()),
        Some(other) => Err(wrong(place, other, "a map")),
    }
}

/// An optional string.
fn text(value: Option<&Value>, place: &str) -> Result<Option<GivenValue>, Mistakes> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(_)) => Ok(value.map(|value| GivenValue::new(place, value.clone()))),
        Some(other) => Err(wrong(place, other, "a text")),
    }
}

/// An optional boolean.
fn truth(value: Option<&Value>, place: &str) -> Result<Option<bool>, Mistakes> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(truth)) => Ok(Some(*truth)),
        Some(other) => Err(wrong(place, other, "true or false")),
    }
}

fn wrong(place: &str, value: &Value, wanted: &str) -> Mistakes {
    Mistake::Wrong { given: GivenValue::new(place, value.clone()), wanted: wanted.to_owned() }.into()
}
