// SPDX-License-Identifier: Apache-2.0
//! A product under test, as its description says it: binaries, how it is deployed, what it claims. Whether a binary is there, [`crate::sut`] finds out.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::objects::Objects;
use crate::binaries::{AGENT, PLUGIN, TOOL};
use crate::portable::MILLRACE;
use crate::suite::sha256;
use crate::verdict::Verdict;

pub mod excuses;
pub mod objects;

/// What a product may claim. Each is a tag of scenarios, but for the plugin, which all scenarios need.
pub const CAPABILITIES: [&str; 4] = [PLUGIN, TOOL, AGENT, MILLRACE];

/// Capabilities that are a binary.
pub const ROLES: [&str; 3] = [PLUGIN, TOOL, AGENT];

const FIELDS: [&str; 7] =
    ["name", "version", "binaries", "deployed", "capabilities", "unsupported", "errors"];

/// How its node agent gets onto a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deployment {
    /// Its `install-cni manifests` renders our chart with a scenario's values.
    Manifests,
    /// By objects that were rendered beforehand.
    Objects(Box<Objects>),
    /// Not at all: nodes have its binaries, and nobody runs an agent.
    Binaries,
}

/// A product under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    pub name: String,
    pub version: String,
    pub deployed: Deployment,
    /// Claimed capabilities.
    pub claims: Vec<String>,
    /// Reasons why it does not claim one.
    pub unsupported: BTreeMap<String, String>,
    /// Texts in messages of level `error` that its logs may have in any scenario, each with the reason.
    pub errors: BTreeMap<String, String>,
    /// Capabilities that are claimed and cannot be tried, with the reason.
    pub missing: BTreeMap<String, String>,
    /// Its description, as it was read.
    pub description: Option<Value>,
    /// Files that the description consists of.
    pub sources: Vec<Source>,
}

/// A file of a description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub path: PathBuf,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

/// A description: the product, and where each of its binaries should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    pub product: Product,
    /// Paths by role, of claimed roles only.
    pub binaries: BTreeMap<&'static str, PathBuf>,
}

impl Product {
    /// A directory without a description: whatever is found there by name is claimed.
    #[must_use]
    pub fn of_directory(dir: &Path, found: &[&str]) -> Self {
        let lacking = ROLES.into_iter().filter(|role| !found.contains(role));
        Self {
            name: dir.display().to_string(),
            version: String::new(),
            deployed: Deployment::Manifests,
            claims: found.iter().copied().chain([MILLRACE]).map(str::to_owned).collect(),
            unsupported: lacking
                .map(|role| (role.to_owned(), format!("no {role} in {}", dir.display())))
                .collect(),
            errors: BTreeMap::new(),
            missing: BTreeMap::new(),
            description: None,
            sources: Vec::new(),
        }
    }

    /// Why a scenario with these tags cannot be asked of it: what it does not claim is unsupported, what it claims and lacks is a failure.
    #[must_use]
    pub fn refusal(&self, tags: &[String]) -> Option<(Verdict, String)> {
        let needs =
            || CAPABILITIES.into_iter().filter(|&need| need == PLUGIN || tags.iter().any(|tag| tag == need));
        if let Some(need) = needs().find(|need| !self.claims.iter().any(|claim| claim == need)) {
            let reason =
                self.unsupported.get(need).map_or("its description does not claim it", String::as_str);
            return Some((Verdict::Unsupported, format!("{need}: {reason}")));
        }
        needs().find_map(|need| Some((Verdict::Fail, self.missing.get(need)?.clone())))
    }
}

/// Reads a description. All mistakes are told at once, each with its field and value.
///
/// # Errors
/// The file cannot be read, or says what nobody understands.
pub fn read(path: &Path) -> anyhow::Result<Description> {
    let mut sources = Vec::new();
    let text = read_source(path, &mut sources).with_context(|| format!("cannot read {}", path.display()))?;
    let parsed: Value =
        serde_saphyr::from_str(&text).with_context(|| format!("{} is no YAML", path.display()))?;
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut reader = Reader { dir, faults: Vec::new(), sources };
    let mut description = reader.description(&parsed);
    description.product.sources = std::mem::take(&mut reader.sources);
    description.product.description = Some(parsed);
    if !reader.faults.is_empty() {
        bail!("{}: {}", path.display(), reader.faults.join("; "));
    }
    Ok(description)
}

/// Reads a file of a description, and enters it with its digest.
fn read_source(path: &Path, sources: &mut Vec<Source>) -> io::Result<String> {
    let text = std::fs::read_to_string(path)?;
    sources.push(Source { path: path.to_owned(), sha256: sha256(text.as_bytes()) });
    Ok(text)
}

/// Reads fields, and collects what is wrong with them.
struct Reader<'a> {
    /// Relative paths are the file's.
    dir: &'a Path,
    faults: Vec<String>,
    /// Files that were read.
    sources: Vec<Source>,
}

impl Reader<'_> {
    fn description(&mut self, value: &Value) -> Description {
        let fields = self.object("the description", value, &FIELDS);
        let claims = self.claims(fields.get("capabilities"));
        let unsupported = self.reasons(fields.get("unsupported"), &claims);
        let binaries = self.binaries(fields.get("binaries"), &claims);
        let deployed = self.deployed(fields.get("deployed"), &claims);
        let (name, version) =
            (self.text("name", fields.get("name")), self.text("version", fields.get("version")));
        if !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-') {
            self.fault("name", &Value::from(name.clone()), "letters, digits and hyphens make a name");
        }
        let errors = self.excuses(fields.get("errors"));
        let missing = BTreeMap::new();
        let (description, sources) = (None, Vec::new());
        let product =
            Product { name, version, deployed, claims, unsupported, errors, missing, description, sources };
        Description { product, binaries }
    }

    fn fault(&mut self, field: &str, value: &Value, why: &str) {
        self.faults.push(format!("{field}: {value}: {why}"));
    }

    /// An object with known fields only.
    fn object(&mut self, at: &str, value: &Value, known: &[&str]) -> Map<String, Value> {
        let Some(fields) = value.as_object() else {
            self.fault(at, value, &format!("it is to have the fields {}", known.join(", ")));
            return Map::new();
        };
        for (name, value) in fields.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            self.fault(name, value, &format!("no such field of {at}: they are {}", known.join(", ")));
        }
        fields.clone()
    }

    fn text(&mut self, field: &str, value: Option<&Value>) -> String {
        match value {
            Some(Value::String(text)) if !text.is_empty() => return text.clone(),
            // A version such as 1.31 is a number to YAML.
            Some(Value::Number(number)) => return number.to_string(),
            Some(other) => self.fault(field, other, "a text is wanted"),
            None => self.faults.push(format!("{field} is missing")),
        }
        String::new()
    }

    /// Texts by name.
    fn texts(&mut self, field: &str, value: Option<&Value>) -> BTreeMap<String, String> {
        let Some(value) = value else { return BTreeMap::new() };
        let Some(fields) = value.as_object() else {
            self.fault(field, value, "a map is wanted, from a name to a text");
            return BTreeMap::new();
        };
        fields
            .iter()
            .map(|(name, text)| (name.clone(), self.text(&format!("{field}.{name}"), Some(text))))
            .collect()
    }

    /// Texts that excuse errors in logs, each with the reason.
    fn excuses(&mut self, value: Option<&Value>) -> BTreeMap<String, String> {
        let excuses = self.texts("errors", value);
        for (text, why) in excuses.keys().filter_map(|text| Some((text, excuses::fault(text)?))) {
            self.fault("errors", &Value::from(text.as_str()), &why);
        }
        excuses
    }

    fn claims(&mut self, value: Option<&Value>) -> Vec<String> {
        let Some(list) = value.and_then(Value::as_array) else {
            let value = value.unwrap_or(&Value::Null);
            self.fault("capabilities", value, &format!("a list is wanted, of {}", CAPABILITIES.join(", ")));
            return Vec::new();
        };
        let known = |value: &Value| value.as_str().is_some_and(|name| CAPABILITIES.contains(&name));
        for unknown in list.iter().filter(|value| !known(value)) {
            self.fault("capabilities", unknown, &format!("not one of {}", CAPABILITIES.join(", ")));
        }
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn reasons(&mut self, value: Option<&Value>, claims: &[String]) -> BTreeMap<String, String> {
        let Some(value) = value else { return BTreeMap::new() };
        let fields = self.object("unsupported", value, &CAPABILITIES);
        for (name, value) in fields.iter().filter(|(name, _)| claims.contains(name)) {
            self.fault(&format!("unsupported.{name}"), value, "capabilities claims it");
        }
        fields
            .iter()
            .map(|(name, why)| (name.clone(), self.text(&format!("unsupported.{name}"), Some(why))))
            .collect()
    }

    fn binaries(&mut self, value: Option<&Value>, claims: &[String]) -> BTreeMap<&'static str, PathBuf> {
        let known: Vec<_> = ["directory"].into_iter().chain(ROLES).collect();
        let fields = self.object("binaries", value.unwrap_or(&Value::Null), &known);
        let directory = self.dir.join(self.text("binaries.directory", fields.get("directory")));
        let mut found = BTreeMap::new();
        for role in ROLES.into_iter().filter(|role| claims.iter().any(|claim| claim == role)) {
            let file = fields.get(role).map(|file| self.text(&format!("binaries.{role}"), Some(file)));
            found.insert(role, directory.join(file.as_deref().unwrap_or(role)));
        }
        for (role, file) in fields.iter().filter(|(role, _)| ROLES.contains(&role.as_str())) {
            if !claims.contains(role) {
                self.fault(&format!("binaries.{role}"), file, "capabilities does not claim it");
            }
        }
        found
    }

    fn deployed(&mut self, value: Option<&Value>, claimed: &[String]) -> Deployment {
        let claims = |name: &str| claimed.iter().any(|claim| claim == name);
        let (found, fault) = match value {
            Some(Value::String(how)) if how == "manifests" => {
                let why = "a product that does not claim millrace has no `install-cni manifests`".to_owned();
                (Deployment::Manifests, (!claims(MILLRACE)).then_some(why))
            }
            Some(Value::String(how)) if how == "binaries" => {
                let why = format!("nobody runs the {AGENT} that it claims");
                (Deployment::Binaries, claims(AGENT).then_some(why))
            }
            Some(Value::String(file)) if file.ends_with(".yaml") => return self.deployed_like(file, claimed),
            Some(fields @ Value::Object(_)) => {
                let why = format!("objects run an {AGENT}, and capabilities does not claim it");
                (Deployment::Objects(Box::new(self.objects(fields))), (!claims(AGENT)).then_some(why))
            }
            _ => (
                Deployment::Binaries,
                Some("`manifests`, `binaries` or `objects: FILE` is wanted".to_owned()),
            ),
        };
        if let Some(why) = fault {
            self.fault("deployed", value.unwrap_or(&Value::Null), &why);
        }
        found
    }

    /// As another description says.
    fn deployed_like(&mut self, file: &str, claimed: &[String]) -> Deployment {
        let path = self.dir.join(file);
        let read = read_source(&path, &mut self.sources).map_err(|error| error.to_string());
        let like = read.and_then(|text| serde_saphyr::from_str(&text).map_err(|error| error.to_string()));
        let like: Value = like.unwrap_or_else(|why| {
            self.fault("deployed", &Value::from(file), &why);
            Value::Null
        });
        if like["deployed"].as_str().is_some_and(|how| how.ends_with(".yaml")) {
            self.fault("deployed", &Value::from(file), "it is deployed like a third");
            return Deployment::Binaries;
        }
        let dir = path.parent().unwrap_or(Path::new("."));
        let mut there = Reader { dir, faults: Vec::new(), sources: Vec::new() };
        let found = there.deployed(like.get("deployed"), claimed);
        self.faults.append(&mut there.faults);
        self.sources.append(&mut there.sources);
        found
    }

    fn objects(&mut self, value: &Value) -> Objects {
        let fields = self.object("deployed", value, &["objects", "settings", "image"]);
        let path = self.dir.join(self.text("deployed.objects", fields.get("objects")));
        let read = read_source(&path, &mut self.sources).map_err(|error| error.to_string());
        let all = read.and_then(|text| serde_saphyr::from_multiple(&text).map_err(|error| error.to_string()));
        let all = all.unwrap_or_else(|why| {
            self.fault("deployed.objects", &Value::from(path.display().to_string()), &why);
            Vec::new()
        });
        let settings = self.texts("deployed.settings", fields.get("settings"));
        let image = fields.get("image").map_or(&[][..], |value| {
            value.as_array().map(Vec::as_slice).unwrap_or_else(|| {
                self.fault("deployed.image", value, "a list of paths is wanted");
                &[]
            })
        });
        let image = image.iter().map(|path| self.text("deployed.image", Some(path)).into()).collect();
        let objects = Objects { all, settings, image };
        for place in objects.lost() {
            self.fault("deployed.settings", &Value::from(place), "no such object or field");
        }
        objects
    }
}

#[cfg(test)]
mod tests;
