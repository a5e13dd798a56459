// SPDX-License-Identifier: Apache-2.0
//! Installation manifests. Every input becomes one typed set of [`Values`], and from that come the objects. Text in, values out: nothing
//! here reads a file, asks a cluster or knows the time.
//!
//! | module | what it is |
//! |---|---|
//! | [`setting`], [`table`] | every setting: the chart's value, the agent's key, kind, default, help |
//! | [`layers`] | defaults, and layers of platforms, profiles and releases |
//! | [`spelling`] | `cni.x` and `x` are one value |
//! | [`check`] | unknown keys, wrong kinds |
//! | [`resolve`] | all of that in order: the operator wins |
//! | [`values`] | the result |
//! | [`mod@render`] | the objects |
//! | [`inputs`] | all forms of input, translated |
//! | [`skew`] | supported version skew |
//! | [`mistake`], [`note`], [`place`] | errors, all of them at once; hints; names of values in both |
//! | [`document`] | YAML text, read |
//! | [`yaml`] | and written |
//! | [`papers`] | what is written from the table |

pub mod check;
pub mod document;
pub mod inputs;
pub mod layers;
pub mod mistake;
pub mod note;
pub mod papers;
pub mod place;
pub mod render;
pub mod resolve;
pub mod setting;
pub mod skew;
pub mod spelling;
pub mod table;
pub mod values;
pub mod yaml;

pub use mistake::{Mistake, Mistakes};
pub use render::render;
pub use resolve::Context;
pub use values::{Release, Values};
