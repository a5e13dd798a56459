// SPDX-License-Identifier: Apache-2.0
//! A real helm, which costs a tenth of a second for each start: many renderings go into one, as aliases of the chart below another one.

use std::path::Path;
use std::process::{Command, Output};

use manifests::layers::Family;
use serde_json::{Map, Value, json};

use crate::cases::Rendering;
use crate::server::Server;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../chart");

/// True if helm is installed.
pub(crate) fn is_there() -> bool {
    Command::new("helm").arg("version").output().is_ok_and(|output| output.status.success())
}

fn run(arguments: &[&str], values: &Value) -> Output {
    let dir = tempfile::tempdir().unwrap();
    // Its caches and settings are not those of whoever runs the tests.
    let file = dir.path().join("values.json");
    std::fs::write(&file, values.to_string()).unwrap();
    let home = |name: &str| dir.path().join(name);
    Command::new("helm")
        .args(arguments)
        .arg("--values")
        .arg(&file)
        .env("HELM_CACHE_HOME", home("cache"))
        .env("HELM_CONFIG_HOME", home("config"))
        .env("HELM_DATA_HOME", home("data"))
        .output()
        .unwrap()
}

/// Output of `helm template` for the chart at `path`, parsed.
fn template(path: &str, rendering: &Rendering, values: &Value) -> Result<String, String> {
    let release = &rendering.release;
    let mut arguments = vec!["template", &release.name, path, "--namespace", &release.namespace];
    // The option --kube-version drops "-gke": Helm has to hear it from a server, and asks one when it validates.
    let server =
        rendering.kube_version.map(|version| Server::new(version, &rendering.ours().unwrap_or_default()));
    match &server {
        Some(server) => {
            arguments.extend([
                "--validate",
                "--disable-openapi-validation",
                "--kube-apiserver",
                server.url(),
            ]);
        }
        // Without one, a helm takes the version that it was built with for the server's, and one that was built by `go install` has none.
        None => arguments.extend(["--kube-version", "v1.34.4"]),
    }
    let output = run(&arguments, values);
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout).unwrap());
    }
    Err(String::from_utf8(output.stderr).unwrap())
}

/// Helm's result of `--set` over values.
pub(crate) fn set(word: &str, values: &Value) -> Result<Value, String> {
    let dir = tempfile::tempdir().unwrap();
    let chart = json!({ "apiVersion": "v2", "name": "set", "version": "0.0.0" });
    std::fs::write(dir.path().join("Chart.yaml"), chart.to_string()).unwrap();
    std::fs::create_dir(dir.path().join("templates")).unwrap();
    std::fs::write(dir.path().join("templates/values.yaml"), "{{ toJson .Values }}").unwrap();
    let output = run(&["template", "set", dir.path().to_str().unwrap(), "--set", word], values);
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let read = manifests::document::read(word, &text).map_err(|mistakes| mistakes.to_string())?;
    read.into_iter().next().ok_or_else(|| "no values".to_owned())
}

/// Objects of one rendering.
pub(crate) fn render(rendering: &Rendering) -> Result<Vec<Value>, String> {
    let text = template(CHART, rendering, &rendering.values)?;
    manifests::document::read(&rendering.name, &text).map_err(|mistakes| mistakes.to_string())
}

/// The objects of many renderings that differ in nothing but their values, in the same order.
pub(crate) fn render_all(renderings: &[Rendering]) -> Result<Vec<Vec<Value>>, String> {
    let dir = tempfile::tempdir().unwrap();
    let alias = |index: usize| format!("rendering{index}");
    let copy = dir.path().join("charts/istio-cni");
    copy_dir(Path::new(CHART), &copy);
    let dependencies: Vec<_> = (0..renderings.len())
        .map(|index| json!({ "name": "istio-cni", "version": "*", "alias": alias(index) }))
        .collect();
    let chart =
        json!({ "apiVersion": "v2", "name": "all", "version": "0.0.0", "dependencies": dependencies });
    std::fs::write(dir.path().join("Chart.yaml"), chart.to_string()).unwrap();
    let values: Map<_, _> =
        renderings.iter().enumerate().map(|(index, one)| (alias(index), one.values.clone())).collect();
    let Some(first) = renderings.first() else { return Ok(Vec::new()) };
    let text = template(dir.path().to_str().unwrap(), first, &values.into())?;
    let mut all = vec![Vec::new(); renderings.len()];
    for part in text
        .split("\n---\n# Source: all/charts/rendering")
        .map(|part| part.trim_start_matches("---\n# Source: all/charts/rendering"))
    {
        let (index, _) = part.split_once('/').ok_or_else(|| format!("no source: {part}"))?;
        let index: usize = index.parse().map_err(|_| format!("no rendering: {part}"))?;
        let (_, body) = part.split_once('\n').ok_or("no object")?;
        all[index].extend(manifests::document::read("helm", body).map_err(|mistakes| mistakes.to_string())?);
    }
    Ok(all)
}

pub(crate) fn copy_chart(to: &Path) {
    copy_dir(Path::new(CHART), to);
}

/// Objects of a modified copy of the chart.
pub(crate) fn of_copy(chart: &Path, values: &Value) -> Result<Vec<Value>, String> {
    let rendering = Rendering { values: values.clone(), ..Rendering::new("copy", json!({})) };
    let text = template(chart.to_str().unwrap(), &rendering, values)?;
    manifests::document::read("helm", &text).map_err(|mistakes| mistakes.to_string())
}

/// Helm's raw output.
pub(crate) fn text(values: &Value) -> Result<String, String> {
    template(CHART, &Rendering { values: values.clone(), ..Rendering::new("text", json!({})) }, values)
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// `helm lint --strict` on every platform.
pub(crate) fn lint() -> Result<(), String> {
    for platform in std::iter::once("").chain(Family::Platform.names()) {
        let values = Rendering::new("lint", json!({ "platform": platform })).values;
        let output = run(&["lint", CHART, "--strict", "--quiet"], &values);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = stdout.contains("[WARNING]") || stdout.contains("[ERROR]");
        if !output.status.success() || complained {
            return Err(format!("{platform}: {stdout}{}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok(())
}
