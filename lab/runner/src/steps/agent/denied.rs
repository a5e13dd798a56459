// SPDX-License-Identifier: Apache-2.0
//! Permission errors of the agent although it is root, as by a security module: by the immutable flag, and by modes where somebody removed
//! the capability that overrides them.
//!
//! W is `the CNI directory`, `the binary directory`, `the run directory`, or the name of a file in the CNI directory, in quotes.

use std::path::PathBuf;
use std::sync::Arc;

use cluster::hand::{Hand, Handed};
use cucumber::{given, when};

use super::bare;
use crate::steps::files::files;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// A denied path. Whoever ends the scenario restores it.
#[derive(Debug)]
pub struct Denial {
    hand: Arc<dyn Hand>,
    path: PathBuf,
    by: By,
}

#[derive(Debug)]
enum By {
    Flag,
    /// Former mode.
    Mode(u32),
}

impl Denial {
    async fn by_flag(hand: Arc<dyn Hand>, path: PathBuf) -> Result<Self, Stop> {
        hand.set_immutable(&path, true).await?;
        Ok(Self { hand, path, by: By::Flag })
    }

    async fn by_mode(hand: Arc<dyn Hand>, path: PathBuf) -> Result<Self, Stop> {
        let before = hand.look(&path).await?.map(|entry| entry.mode);
        let before = before.ok_or_else(|| Stop::harness(format!("{} is not there", path.display())))?;
        hand.set_mode(&path, 0o000).await?;
        Ok(Self { hand, path, by: By::Mode(before) })
    }

    /// Restores it.
    pub async fn undo(&self) -> Handed<()> {
        match self.by {
            By::Flag => self.hand.set_immutable(&self.path, false).await,
            By::Mode(before) => self.hand.set_mode(&self.path, before).await,
        }
    }
}

async fn place(world: &mut LabWorld, what: &str) -> Result<PathBuf, Stop> {
    let paths = files(world).await?.paths;
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
    let hand = files(world).await?.hand;
    let denial = match how.as_str() {
        "immutable" => Denial::by_flag(hand, path).await?,
        _ => Denial::by_mode(hand, path).await?,
    };
    world.agent.denials.push(denial);
    Ok(())
}

/// Undoes either.
#[when(regex = r#"^(the (?:CNI|binary|run) directory|"[^"]+") is open again$"#)]
async fn open(world: &mut LabWorld, what: String) -> Step {
    let path = place(world, &what).await?;
    for denial in world.agent.denials.extract_if(.., |denial| denial.path == path) {
        denial.undo().await?;
    }
    Ok(())
}
