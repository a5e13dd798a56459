// SPDX-License-Identifier: Apache-2.0
//! Both renderings say the same.

use crate::cases::{self, Rendering};
use crate::{differ, helm};

/// Every platform in every mode.
pub(crate) fn product() -> Result<String, String> {
    let renderings = cases::product();
    let theirs = helm::render_all(&renderings)?;
    let pairs = renderings.iter().zip(theirs.into_iter().map(Ok));
    compare(pairs)
}

/// Each value.
pub(crate) fn single() -> Result<String, String> {
    let renderings = cases::single();
    let theirs: Vec<_> = renderings.iter().map(helm::render).collect();
    compare(renderings.iter().zip(theirs))
}

type Theirs = Result<Vec<serde_json::Value>, String>;

fn compare<'a>(pairs: impl Iterator<Item = (&'a Rendering, Theirs)>) -> Result<String, String> {
    let (mut compared, mut objects, mut wrong) = (0, 0, Vec::new());
    for (rendering, theirs) in pairs {
        match (rendering.ours(), theirs) {
            (Ok(ours), Ok(theirs)) => {
                let lines = differ::objects(&ours, &theirs);
                wrong.extend(lines.into_iter().map(|line| format!("{}: {line}", rendering.name)));
                objects += ours.len();
            }
            (ours, theirs) => {
                let why = [ours.err(), theirs.err()].into_iter().flatten();
                wrong.extend(why.map(|why| format!("{}: {why}", rendering.name)));
            }
        }
        compared += 1;
    }
    if wrong.is_empty() {
        return Ok(format!("manifests: {compared} renderings compared with helm, {objects} objects"));
    }
    wrong.truncate(40);
    Err(format!("the first is ours, the second Helm's\n{}", wrong.join("\n")))
}
