// SPDX-License-Identifier: Apache-2.0
//! What an operator applies. Every input becomes one typed set of [`Values`], and from that come the objects. Text in, values out:
//! nothing here reads a file, asks a cluster or knows the time.
//!
//! | module | what it is |
//! |---|---|
//! | [`field`], [`fields`] | what each value is, its default, what it is for |
//! | [`layers`] | defaults, and what the chart's files say of platforms, profiles and releases |
//! | [`spelling`] | `cni.x` and `x` are one value |
//! | [`check`] | unknown keys, wrong kinds |
//! | [`resolve`] | all of that in order: the operator wins |
//! | [`values`] | the result |
//! | [`mod@render`] | the objects |
//! | [`inputs`] | everything that may be handed in, translated |
//! | [`skew`] | which releases go together |
//! | [`mistake`], [`note`], [`place`] | what is wrong, all of it at once, and what is good to know; by which names |
//! | [`document`] | YAML text, read |
//! | [`yaml`] | and written |
//! | [`papers`] | what is written from the table of fields |

pub mod check;
pub mod document;
pub mod field;
pub mod fields;
pub mod inputs;
pub mod layers;
pub mod mistake;
pub mod note;
pub mod papers;
pub mod place;
pub mod render;
pub mod resolve;
pub mod skew;
pub mod spelling;
pub mod values;
pub mod yaml;

pub use mistake::{Mistake, Mistakes};
pub use render::render;
pub use resolve::Context;
pub use values::{Release, Values};
