// SPDX-License-Identifier: Apache-2.0
//! Permission errors of the agent although it is root, as by a security module: by the immutable flag, and by modes where somebody removed
//! the capability that overrides them.
//!
//! W is `the CNI directory`, `the binary directory`, `the run directory`, or the name of a file in the CNI directory, in quotes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use cucumber::{given, when};

use super::{bare, paths};
use crate::immutable;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// A denied path, restored on drop.
#[derive(Debug)]
pub struct Denial {
    path: PathBuf,
    by: By,
}

#[derive(Debug)]
enum By {
    Flag,
    /// Former mode.
    Mode(Permissions),
}

impl Denial {
    fn by_flag(path: PathBuf) -> Result<Self, Stop> {
        immutable::set(&path, true).map_err(Stop::harness)?;
        Ok(Self { path, by: By::Flag })
    }

    fn by_mode(path: PathBuf) -> Result<Self, Stop> {
        let before = fs::metadata(&path).map_err(Stop::harness)?.permissions();
        fs::set_permissions(&path, Permissions::from_mode(0o000)).map_err(Stop::harness)?;
        Ok(Self { path, by: By::Mode(before) })
    }
}

impl Drop for Denial {
    fn drop(&mut self) {
        // A failure shows when the scenario's directories cannot be removed.
        let _ = match &self.by {
            By::Flag => immutable::set(&self.path, false),
            By::Mode(before) => fs::set_permissions(&self.path, before.clone()),
        };
    }
}

async fn place(world: &mut LabWorld, what: &str) -> Result<PathBuf, Stop> {
    let paths = paths(world).await?;
    Ok(match what {
        "the CNI directory" => paths.conf_dir,
        "the binary directory" => paths.bin_dir,
        "the run directory" => paths.run_dir,
        file => paths.conf_dir.join(file.trim_matches('"')),
    })
}

/// Drops a capability, whatever the chart says.
#[given(regex = r#"^the node agent's container lacks "([A-Z_]+)"$"#)]
fn lacks(world: &mut LabWorld, capability: String) {
    world.agent.lacks.push(capability);
}

/// `chattr +i`, or mode 0.
#[given(regex = r#"^(the (?:CNI|binary|run) directory|"[^"]+") is (immutable|closed by its mode)$"#)]
#[when(regex = r#"^(the (?:CNI|binary|run) directory|"[^"]+") is (immutable|closed by its mode)$"#)]
async fn denied(world: &mut LabWorld, what: String, how: String) -> Step {
    bare(world)?;
    let path = place(world, &what).await?;
    let denial = if how == "immutable" { Denial::by_flag(path) } else { Denial::by_mode(path) };
    world.agent.denials.push(denial?);
    Ok(())
}

/// Undoes either.
#[when(regex = r#"^(the (?:CNI|binary|run) directory|"[^"]+") is open again$"#)]
async fn open(world: &mut LabWorld, what: String) -> Step {
    let path = place(world, &what).await?;
    world.agent.denials.retain(|denial| denial.path != path);
    Ok(())
}
