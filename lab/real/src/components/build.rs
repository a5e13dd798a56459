// SPDX-License-Identifier: Apache-2.0
//! Building: each binary to a name of its own, renamed when it is finished, under a lock of its component.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::recipe::Sources;
use super::{Components, Recipe};
use crate::error::Error;
use crate::tools;

/// Lines of a build that failed.
const LAST: usize = 12;

/// Event of a build, with the binary's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress<'a> {
    /// It is there.
    Cached(&'a str),
    /// It begins.
    Begun(&'a str),
    /// So many packages of it were compiled.
    Compiled(&'a str, usize),
    /// It is there now.
    Built(&'a str, Duration),
}

impl Components {
    /// Builds what is not there of a component.
    ///
    /// # Errors
    /// A program is missing, or the build fails; what was finished stays.
    pub fn build(&self, recipe: &Recipe, tell: &mut dyn FnMut(Progress<'_>)) -> Result<(), Error> {
        let directory = self.path(recipe)?;
        fs::create_dir_all(&directory).map_err(Error::file("make", &directory))?;
        let lock = self.cache.join(format!("{}.lock", recipe.name));
        let lock = File::create(&lock).map_err(Error::file("make", &lock))?;
        // Somebody else may build the same: then it is there afterwards.
        lock.lock().map_err(|source| Error::System("lock a component", source))?;
        for name in recipe.names() {
            let path = directory.join(name);
            if path.is_file() {
                tell(Progress::Cached(name));
                continue;
            }
            needed(recipe, name)?;
            tell(Progress::Begun(name));
            let started = Instant::now();
            let fresh = directory.join(format!(".{name}.new"));
            match (recipe.binaries.get(name), recipe.c.get(name)) {
                (Some(package), _) => self.go(recipe, name, package, &fresh, tell)?,
                (_, Some(sources)) => self.cc(recipe, name, sources, &fresh)?,
                (None, None) => {}
            }
            fs::rename(&fresh, &path).map_err(Error::file("rename", &fresh))?;
            tell(Progress::Built(name, started.elapsed()));
        }
        Ok(())
    }

    fn go(
        &self,
        recipe: &Recipe,
        name: &str,
        package: &str,
        output: &Path,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), Error> {
        let failed = |why: String| Error::Build { binary: name.to_owned(), why };
        let mut command = Command::new("go");
        command.args(recipe.arguments(package, &output.display().to_string()));
        command.current_dir(self.module(recipe)).env("CGO_ENABLED", if recipe.cgo { "1" } else { "0" });
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut go = command.spawn().map_err(|error| failed(format!("cannot run go: {error}")))?;
        let (mut compiled, mut last) = (0, Vec::new());
        for line in go.stderr.take().into_iter().flat_map(|lines| BufReader::new(lines).lines()) {
            let line = line.map_err(|error| failed(error.to_string()))?;
            if is_package(&line) {
                compiled += 1;
                tell(Progress::Compiled(name, compiled));
            } else if !line.starts_with("go: downloading") {
                last.push(line);
            }
        }
        let status = go.wait().map_err(|error| failed(error.to_string()))?;
        if status.success() {
            return Ok(());
        }
        Err(failed(format!(
            "go ended with {status}:\n{}",
            last[last.len().saturating_sub(LAST)..].join("\n")
        )))
    }
}

impl Components {
    /// Compiles what a module has in C. Go has fetched the module, or does now.
    fn cc(&self, recipe: &Recipe, name: &str, sources: &Sources, output: &Path) -> Result<(), Error> {
        let failed = |why: String| Error::Build { binary: name.to_owned(), why };
        let said = |program: &str, arguments: &[OsString]| {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(self.module(recipe)).stdin(Stdio::null());
            let output =
                command.output().map_err(|error| failed(format!("cannot run {program}: {error}")))?;
            if output.status.success() {
                return Ok(output.stdout);
            }
            let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(failed(format!("{program} ended with {}:\n{errors}", output.status)))
        };
        let told = said("go", &["mod", "download", "-json", &sources.module].map(OsString::from))?;
        let module: Downloaded = serde_json::from_slice(&told).map_err(|error| failed(error.to_string()))?;
        let directory = module.dir.join(&sources.directory);
        let found = fs::read_dir(&directory).map_err(Error::file("read", &directory))?;
        let mut files: Vec<_> = found.flatten().map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|end| end == "c"));
        files.sort();
        said("cc", &recipe.compiled(&files, output)).map(drop)
    }
}

/// Answer of `go mod download -json`, as far as we need it.
#[derive(serde::Deserialize)]
struct Downloaded {
    #[serde(rename = "Dir")]
    dir: PathBuf,
}

/// A line of `go build -v`: a package's path and nothing else.
fn is_package(line: &str) -> bool {
    !line.is_empty() && !line.contains([' ', ':', '#'])
}

/// Checks for programs and libraries beforehand: Go would name neither the package to install nor the component.
fn needed(recipe: &Recipe, name: &str) -> Result<(), Error> {
    let lacks = |why: String| Err(Error::Build { binary: name.to_owned(), why });
    let mut programs = std::iter::once("go").chain(recipe.needs.iter().map(String::as_str));
    if let Some(error) = programs.find_map(|program| tools::find(program).err()) {
        return lacks(error.to_string());
    }
    let is_known = |library: &&String| {
        let asked = Command::new("pkg-config").args(["--exists", library.as_str()]).status();
        asked.is_ok_and(|status| status.success())
    };
    match recipe.libraries.iter().find(|library| !is_known(library)) {
        Some(library) => lacks(format!("pkg-config knows no {library}: install its headers ({library}-dev)")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_told_from_everything_else_that_go_prints() {
        assert!(is_package("k8s.io/api/core/v1"));
        assert!(!is_package("go: downloading k8s.io/api v0.34.4"));
        assert!(!is_package("# k8s.io/api/core/v1"));
        assert!(!is_package("main.go:3:5: undefined"));
    }
}
