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
use crate::mistake::{Given, Mistake, Mistakes};
use crate::note::Note;
use crate::place::Place;
use control_plane::Claim;

pub use former::{guide as former_guide, spellings as former_spellings};

/// What an input says, in the present spelling.
#[derive(Debug, Clone, PartialEq)]
pub struct Translated {
    /// Whether a node agent is to be installed at all.
    pub installs: bool,
    /// Values of ours.
    pub values: Value,
    /// The namespace of the node agent.
    pub namespace: Option<Given>,
    /// What it says of the control plane.
    pub claims: Vec<Claim>,
    /// What the operator should know.
    pub notes: Vec<Note>,
    /// What goes in front of a value's name when it is told.
    pub place: Place,
}

impl Default for Translated {
    fn default() -> Self {
        Self {
            installs: false,
            values: Value::Object(Map::new()),
            namespace: None,
            claims: Vec::new(),
            notes: Vec::new(),
            place: Place::default(),
        }
    }
}

impl Translated {
    /// Puts another input over this one.
    pub fn absorb(&mut self, above: Self) {
        self.installs |= above.installs;
        overlay(&mut self.values, &above.values);
        self.namespace = above.namespace.or(self.namespace.take());
        self.claims.extend(above.claims);
        self.notes.extend(above.notes);
        self.place = above.place;
    }
}

/// The keys that a map may have; nothing if it is not there.
///
/// # Errors
/// What is no map, and every other key in it.
fn keys(value: Option<&Value>, place: &str, known: &[&str]) -> Result<Map<String, Value>, Mistakes> {
    let map = map(value, place)?;
    let unknown = map.iter().filter(|(key, _)| !known.contains(&key.as_str())).map(|(key, value)| {
        let nearest = crate::check::closest(key, known.iter().copied()).map(str::to_owned);
        Mistake::Unknown { given: Given::new(format!("{place}.{key}"), value.clone()), nearest }
    });
    Mistakes(unknown.collect()).none().map(|()| map)
}

/// A map, empty if it is not there.
fn map(value: Option<&Value>, place: &str) -> Result<Map<String, Value>, Mistakes> {
    match value {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map.clone()),
        Some(other) => Err(wrong(place, other, "a map")),
    }
}

/// A text, nothing if it is not there.
fn text(value: Option<&Value>, place: &str) -> Result<Option<Given>, Mistakes> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(_)) => Ok(value.map(|value| Given::new(place, value.clone()))),
        Some(other) => Err(wrong(place, other, "a text")),
    }
}

/// A truth value, nothing if it is not there.
fn truth(value: Option<&Value>, place: &str) -> Result<Option<bool>, Mistakes> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(truth)) => Ok(Some(*truth)),
        Some(other) => Err(wrong(place, other, "true or false")),
    }
}

fn wrong(place: &str, value: &Value, wanted: &str) -> Mistakes {
    Mistake::Wrong { given: Given::new(place, value.clone()), wanted: wanted.to_owned() }.into()
}
