// SPDX-License-Identifier: Apache-2.0
//! Components: what is built from which sources, where it lies, and the building of it.
//!
//! The cache is keyed by name, version and a digest of the recipe with its module; what is in it was finished. Go's own cache makes a build
//! that was interrupted go on where it was.

mod build;
mod recipe;

use std::fs;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use crate::error::Error;
pub use build::Progress;
pub use recipe::Recipe;

/// File of the recipes, beside their modules.
const RECIPES: &str = "components.yaml";
/// Digits of the digest in a directory's name.
const DIGITS: usize = 12;

/// The recipes, and the cache.
#[derive(Debug)]
pub struct Components {
    recipes: Vec<Recipe>,
    modules: PathBuf,
    cache: PathBuf,
}

/// State of a component.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct State {
    pub name: String,
    pub version: String,
    /// Its directory, which need not be there.
    pub path: PathBuf,
    /// Binaries that are not built.
    pub missing: Vec<String>,
    /// Size of those that are, in bytes.
    pub bytes: u64,
}

impl Components {
    /// Reads the recipes of `modules`.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read(modules: &Path, cache: &Path) -> Result<Self, Error> {
        let path = modules.join(RECIPES);
        let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        let recipes =
            serde_saphyr::from_str(&text).map_err(|error| Error::Recipes { path, why: error.to_string() })?;
        Ok(Self { recipes, modules: modules.to_owned(), cache: cache.to_owned() })
    }

    /// The cache of a user: `$XDG_CACHE_HOME/cnilab/components`, else below `~/.cache` (XDG Base Directory Specification).
    #[must_use]
    pub fn cache_of(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
        let absolute = xdg.filter(|path| path.is_absolute());
        absolute.or_else(|| Some(home?.join(".cache"))).map(|cache| cache.join("cnilab/components"))
    }

    /// Recipes with these names, in the file's order; without names all.
    ///
    /// # Errors
    /// A name that no recipe has.
    pub fn select(&self, names: &[String]) -> Result<Vec<&Recipe>, Error> {
        if let Some(unknown) = names.iter().find(|name| !self.recipes.iter().any(|one| one.name == **name)) {
            return Err(Error::Unknown(unknown.clone()));
        }
        Ok(self.recipes.iter().filter(|one| names.is_empty() || names.contains(&one.name)).collect())
    }

    /// Directory of a component's binaries.
    ///
    /// # Errors
    /// Its module cannot be read.
    pub fn path(&self, recipe: &Recipe) -> Result<PathBuf, Error> {
        let mut digest = Sha256::new();
        digest.update(serde_json::to_vec(recipe).unwrap_or_default());
        digest.update(std::env::consts::ARCH);
        for file in ["go.mod", "go.sum"] {
            let path = self.module(recipe).join(file);
            digest.update(fs::read(&path).map_err(Error::file("read", &path))?);
        }
        let hex = HEXLOWER.encode(&digest.finalize());
        Ok(self.cache.join(format!("{}-{}-{}", recipe.name, recipe.version, &hex[..DIGITS])))
    }

    fn module(&self, recipe: &Recipe) -> PathBuf {
        self.modules.join(&recipe.name)
    }

    /// State of a component.
    ///
    /// # Errors
    /// Its module cannot be read.
    pub fn state(&self, recipe: &Recipe) -> Result<State, Error> {
        let path = self.path(recipe)?;
        let size = |name: &String| fs::metadata(path.join(name)).map(|found| found.len());
        let missing = recipe.names().filter(|name| size(name).is_err()).cloned().collect();
        let bytes = recipe.names().filter_map(|name| size(name).ok()).sum();
        Ok(State { name: recipe.name.clone(), version: recipe.version.clone(), path, missing, bytes })
    }

    /// Path of a binary that is built.
    ///
    /// # Errors
    /// It is not: the error says how to get it.
    pub fn binary(&self, component: &str, name: &str) -> Result<PathBuf, Error> {
        let recipe = self.select(&[component.to_owned()])?;
        let directory = recipe.first().map(|recipe| self.path(recipe)).transpose()?.unwrap_or_default();
        let path = directory.join(name);
        if path.is_file() {
            return Ok(path);
        }
        Err(Error::Missing { binary: name.to_owned(), component: component.to_owned(), directory })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn components(cache: &Path) -> Components {
        Components::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/components")), cache)
            .unwrap()
    }

    #[test]
    fn every_recipe_has_its_module_at_its_version() {
        let all = components(Path::new("/nowhere"));
        for recipe in all.select(&[]).unwrap() {
            let module = fs::read_to_string(all.module(recipe).join("go.mod")).unwrap();
            let required = format!("v{}", recipe.version);
            assert!(module.contains(&required), "{} does not require {required}", recipe.name);
        }
    }

    #[test]
    fn what_is_not_built_is_said_with_its_place_and_the_command_that_gets_it() {
        let dir = tempfile::tempdir().unwrap();
        let all = components(dir.path());
        let error = all.binary("runc", "runc").unwrap_err().to_string();
        let path = all.path(all.select(&["runc".to_owned()]).unwrap()[0]).unwrap();
        let begins = format!("runc is not in {}: cnilab components build runc", path.display());
        assert!(error.starts_with(&begins), "{error}");
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("runc"), "").unwrap();
        assert_eq!(all.binary("runc", "runc").unwrap(), path.join("runc"));
        assert!(all.select(&["rnc".to_owned()]).unwrap_err().to_string().contains("\"rnc\""));
    }

    #[test]
    fn a_recipe_that_changes_has_another_place() {
        let all = components(Path::new("/cache"));
        let recipe = all.select(&["runc".to_owned()]).unwrap()[0];
        let other = Recipe { tags: vec!["other".to_owned()], ..recipe.clone() };
        assert_ne!(all.path(recipe).unwrap(), all.path(&other).unwrap());
    }

    #[test]
    fn a_cache_that_is_not_absolute_is_ignored() {
        let home = || Some(PathBuf::from("/home/ana"));
        let expected = Some(PathBuf::from("/home/ana/.cache/cnilab/components"));
        assert_eq!(Components::cache_of(Some("cache".into()), home()), expected);
        let expected = Some(PathBuf::from("/c/cnilab/components"));
        assert_eq!(Components::cache_of(Some("/c".into()), home()), expected);
        assert_eq!(Components::cache_of(None, None), None);
    }
}
