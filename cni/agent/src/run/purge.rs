// SPDX-License-Identifier: Apache-2.0
//! Purges for a person, and tells what was done, and where.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::install::purge::{PurgeDirectories, Purged, Sites};
use crate::install::uninstall::BinaryRemoval;
use crate::settings::{Loaded, Origin};
use manifests::table;

/// Removes everything of ours.
pub(super) fn run(loaded: &Loaded, bin_dirs: Vec<PathBuf>, binary: BinaryRemoval) -> ExitCode {
    let named = loaded.values.get(&table::NET_DIR).filter(|value| value.origin != Origin::Default);
    let given = PurgeDirectories { net_dir: named.map(|value| value.text.clone().into()), bin_dirs };
    let sites = Sites::find(&loaded.settings.places, &given, Path::new("/"));
    report(&sites.purge(&loaded.settings, binary), &mut io::stdout().lock())
}

fn report(purged: &Purged, out: &mut dyn Write) -> ExitCode {
    let Purged { summary, looked, absent, blind } = purged;
    let lines = summary.done.iter().map(|what| format!("removed {what}"));
    let lines = lines.chain(summary.kept.iter().map(|what| format!("kept {what}")));
    let lines = lines.chain(summary.errors.iter().map(ToString::to_string));
    let mut count = 0;
    for line in lines {
        let _ = writeln!(out, "{line}");
        count += 1;
    }
    let list = |paths: &[PathBuf]| {
        paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    };
    if count == 0 && !looked.is_empty() {
        let _ = writeln!(out, "nothing of istio-cni was there");
    }
    for (what, paths) in [("looked in", looked), ("did not look in, as it is not there:", absent)] {
        if !paths.is_empty() {
            let _ = writeln!(out, "{what} {}", list(paths));
        }
    }
    if let Some(why) = blind {
        let _ = writeln!(out, "failed to find everything: {why}");
    }
    let is_clean = summary.errors.is_empty() && !summary.named && blind.is_none();
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::uninstall::Summary;

    #[test]
    fn who_asked_is_told_where_it_was_looked_and_where_not() {
        let mut out = Vec::new();
        let mut purged =
            Purged { looked: vec!["/a".into()], absent: vec!["/b".into(), "/c".into()], ..Purged::default() };
        let code = report(&purged, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "nothing of istio-cni was there\nlooked in /a\ndid not look in, as it is not there: /b, /c\n"
        );
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
        purged.blind = Some("no eyes");
        assert_eq!(format!("{:?}", report(&purged, &mut Vec::new())), format!("{:?}", ExitCode::FAILURE));
        let named = Summary { named: true, ..Summary::default() };
        let purged = Purged { summary: named, ..Purged::default() };
        assert_eq!(format!("{:?}", report(&purged, &mut Vec::new())), format!("{:?}", ExitCode::FAILURE));
    }
}
