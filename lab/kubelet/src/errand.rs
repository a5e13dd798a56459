// SPDX-License-Identifier: Apache-2.0
//! Programs that somebody runs beside what pods run: the tools under test as an operator calls them, the system's own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cluster::{CniAnswer, Errand};

use crate::error::Error;
use crate::node::NetnsNode;
use crate::process::Program;

/// Where the system's programs are.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl NetnsNode {
    pub(crate) async fn run_errand(&self, errand: Errand) -> Result<CniAnswer, Error> {
        let (name, arguments) =
            errand.words.split_first().ok_or_else(|| Error::Missing("program".to_owned()))?;
        let under_test = self.options.binaries.sut.join(name);
        let mut program = if under_test.is_file() {
            let mut program = Program::new(&under_test, arguments.iter().cloned());
            program.env.extend(self.options.binaries.sut_env.clone());
            program
        } else {
            Program::new(&find(name)?, arguments.iter().cloned())
        };
        (program.uid, program.gid) = errand.owner;
        program.env.insert("PATH".to_owned(), PATH.to_owned());
        let netns = errand.netns.map_or_else(|| self.netns.path().to_owned(), PathBuf::from);
        finish(&program, &netns, &errand.stdin, self.options.deadlines.process).await
    }
}

fn find(name: &str) -> Result<PathBuf, Error> {
    let found = PATH.split(':').map(|directory| Path::new(directory).join(name)).find(|path| path.is_file());
    found.ok_or_else(|| Error::Missing(format!("program {name}")))
}

/// Runs a program to its end.
pub(crate) async fn finish(
    program: &Program,
    netns: &Path,
    input: &[u8],
    deadline: Duration,
) -> Result<CniAnswer, Error> {
    let started = Instant::now();
    let output = program.finish(netns, input, deadline).await?;
    Ok(CniAnswer {
        exit: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: started.elapsed(),
    })
}
