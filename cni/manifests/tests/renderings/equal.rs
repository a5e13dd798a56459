// SPDX-License-Identifier: Apache-2.0
//! Both renderings say the same.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cases::{self, Rendering};
use crate::{differ, helm};

/// Number of renderings that were compared, for CI.
pub(crate) static COMPARED: AtomicUsize = AtomicUsize::new(0);

/// Every platform in every mode.
pub(crate) fn product() -> Result<(), String> {
    let renderings = cases::product();
    let theirs = helm::render_all(&renderings)?;
    let pairs = renderings.iter().zip(theirs.into_iter().map(Ok));
    compare(pairs)
}

/// Each value.
pub(crate) fn single() -> Result<(), String> {
    let renderings = cases::single();
    let theirs: Vec<_> = renderings.iter().map(helm::render).collect();
    compare(renderings.iter().zip(theirs))
}

type Theirs = Result<Vec<serde_json::Value>, String>;

fn compare<'a>(pairs: impl Iterator<Item = (&'a Rendering, Theirs)>) -> Result<(), String> {
    let mut wrong = Vec::new();
    for (rendering, theirs) in pairs {
        match (rendering.ours(), theirs) {
            (Ok(ours), Ok(theirs)) => {
                let lines = differ::objects(&ours, &theirs);
                wrong.extend(lines.into_iter().map(|line| format!("{}: {line}", rendering.name)));
            }
            (ours, theirs) => {
                let why = [ours.err(), theirs.err()].into_iter().flatten();
                wrong.extend(why.map(|why| format!("{}: {why}", rendering.name)));
            }
        }
        COMPARED.fetch_add(1, Ordering::Relaxed);
    }
    if wrong.is_empty() {
        return Ok(());
    }
    wrong.truncate(40);
    Err(format!("the first is ours, the second Helm's\n{}", wrong.join("\n")))
}
