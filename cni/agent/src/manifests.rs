// SPDX-License-Identifier: Apache-2.0
//! `install-cni manifests`: the objects that install the agent, from whatever an operator has, without Helm. What is read, and what it
//! means, is decided in the crate `manifests`; here are the files, the command line and the exit code.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use ::manifests::inputs::install::{NamedText, Sources, install};
use ::manifests::render::{self, render};
use ::manifests::resolve::Context;
use ::manifests::setting::Setting;
use ::manifests::values::{Release, Values};
use ::manifests::{Mistakes, yaml};
use serde_json::{Value, json};

/// Flags of the agent that were given, as text.
type GivenFlags = BTreeMap<&'static Setting, String>;

const EXAMPLES: &str = "\
Objects go to stdout, notes and warnings to stderr. Values win in this order: --set, --values, --from, --platform, --profile, defaults.
Exit codes: 0 it is rendered; 1 values or a document are wrong, all that is wrong is told; 2 the command line is wrong.
docs/values.md lists the values.

Examples:
  install-cni manifests --image registry.example.com/mesh/install-cni:1.0 --platform openshift | kubectl apply -f -
  install-cni manifests --values my-values.yaml --set chained=false,provider=multus
  install-cni manifests --image \"$IMAGE\" --from istiooperator.yaml --namespace kube-system
  kubectl get servicemesh main -o yaml | install-cni manifests --image \"$IMAGE\" --from - --platform huawei-cce
  install-cni manifests --values old-values.yaml --show-values    the values in their present spelling";

/// Render the objects that install the agent, from values of the chart, from an IstioOperator or from a ServiceMesh.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Request {
    /// A file with values of the chart, old or new; a later one wins; - is stdin.
    #[arg(short = 'f', long, value_name = "FILE")]
    pub values: Vec<PathBuf>,
    /// A value, as Helm writes it.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// A file with an IstioOperator or a ServiceMesh; several are read as one; - is stdin.
    #[arg(long, value_name = "FILE")]
    pub from: Vec<PathBuf>,
    /// The agent's image, a whole reference with its tag or digest; it wins over what values and documents say. There is none of ours on a registry.
    #[arg(long, value_name = "REFERENCE")]
    pub image: Option<String>,
    /// Where the cluster runs.
    #[arg(long)]
    pub platform: Option<String>,
    /// A set of values for a purpose.
    #[arg(long)]
    pub profile: Option<String>,
    /// The namespace of the agent [default: the document's; kube-system for a ServiceMesh, else istio-system].
    #[arg(short = 'n', long)]
    pub namespace: Option<String>,
    /// The name of the installation, as Helm has one.
    #[arg(long, default_value = "istio-cni")]
    pub release: String,
    /// The API server's version, such as v1.33.1-gke.100: before 1.30, AppArmor is told by annotation and no admission policy is rendered; where GKE is not named as the platform, an empty cniBinDir follows from it.
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<String>,
    /// Output format.
    #[arg(short = 'o', long, value_enum, default_value_t)]
    pub output: ManifestsOutput,
    /// Render what cleans the nodes of a cluster that an uninstall left behind, instead: a DaemonSet that purges each node once, and what it
    /// needs, in kube-system unless --namespace says otherwise. Delete it when its rollout is complete.
    #[arg(long, conflicts_with = "show_values")]
    pub purge: bool,
    /// Print the values, all of them, instead of the objects.
    #[arg(long)]
    pub show_values: bool,
}

/// Output format of objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ManifestsOutput {
    /// One document each.
    #[default]
    Yaml,
    /// One List.
    Json,
}

/// Does what is asked for.
///
/// # Errors
/// Its output cannot be written.
pub fn run(
    request: &Request,
    flags: &GivenFlags,
    out: &mut dyn Write,
    stderr: &mut dyn Write,
) -> io::Result<ExitCode> {
    let values =
        match unset(flags).and_then(|()| read(request)).and_then(|sources| installation(request, &sources)) {
            Ok((values, notes)) => {
                notes.iter().try_for_each(|note| writeln!(stderr, "{note}"))?;
                values
            }
            Err(Failure::Usage(what)) => {
                writeln!(stderr, "install-cni manifests: {what}")?;
                return Ok(ExitCode::from(crate::USAGE));
            }
            Err(Failure::Wrong(what)) => {
                writeln!(stderr, "{what}")?;
                return Ok(ExitCode::FAILURE);
            }
        };
    if let Some(values) = values {
        out.write_all(text(request, &values).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

enum Failure {
    Usage(String),
    Wrong(String),
}

impl From<Mistakes> for Failure {
    fn from(mistakes: Mistakes) -> Self {
        Self::Wrong(mistakes.to_string())
    }
}

/// Rejects flags of the agent, which have no effect here.
fn unset(flags: &GivenFlags) -> Result<(), Failure> {
    match flags.keys().next() {
        None => Ok(()),
        Some(key) => {
            Err(Failure::Usage(format!("--{} sets a running agent; here it is a value (--set)", key.name)))
        }
    }
}

fn read(request: &Request) -> Result<Sources, Failure> {
    let stdin = |path: &&PathBuf| path.as_os_str() == "-";
    if request.from.iter().chain(&request.values).filter(stdin).count() > 1 {
        return Err(Failure::Usage("stdin (-) can be read once".to_owned()));
    }
    Ok(Sources {
        documents: request.from.iter().map(source).collect::<Result<_, _>>()?,
        values: request.values.iter().map(source).collect::<Result<_, _>>()?,
        set: request.set.clone(),
        // The agent's may be gone by now.
        namespace: request.namespace.clone().or_else(|| request.purge.then(|| "kube-system".to_owned())),
    })
}

fn source(path: &PathBuf) -> Result<NamedText, Failure> {
    let name = path.display().to_string();
    let text = if name == "-" {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    match text {
        Ok(text) => Ok(NamedText { name, text }),
        Err(error) => Err(Failure::Wrong(format!("{name}: cannot be read: {error}"))),
    }
}

fn installation(
    request: &Request,
    sources: &Sources,
) -> Result<(Option<Values>, Vec<::manifests::note::Note>), Failure> {
    let context = Context {
        release: Release { name: request.release.clone(), ..Release::default() },
        kube_version: request.kube_version.clone(),
        platform: request.platform.clone(),
        profile: request.profile.clone(),
        image: request.image.clone(),
        purge: request.purge,
        ..Context::default()
    };
    let installation = install(sources, &context)?;
    Ok((installation.values, installation.notes))
}

fn text(request: &Request, values: &Values) -> String {
    let objects = match (request.show_values, request.purge) {
        (true, _) => vec![values.all.clone()],
        (false, true) => render::purge(values),
        (false, false) => render(values),
    };
    match (request.output, request.show_values) {
        (ManifestsOutput::Yaml, true) => objects.iter().map(yaml::write).collect(),
        (ManifestsOutput::Yaml, false) => {
            objects.iter().map(|object| format!("---\n{}", yaml::write(object))).collect()
        }
        (ManifestsOutput::Json, true) => objects.iter().map(pretty).collect(),
        (ManifestsOutput::Json, false) => {
            pretty(&json!({ "apiVersion": "v1", "kind": "List", "items": objects }))
        }
    }
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Minimal request with an image.
    fn named() -> Request {
        Request { image: Some("example.com/mesh/install-cni:1".to_owned()), ..Request::default() }
    }

    fn ran(request: &Request) -> (String, String, String) {
        let (mut out, mut stderr) = (Vec::new(), Vec::new());
        let code = run(request, &GivenFlags::default(), &mut out, &mut stderr).unwrap();
        (format!("{code:?}"), String::from_utf8(out).unwrap(), String::from_utf8(stderr).unwrap())
    }

    fn code(number: u8) -> String {
        format!("{:?}", ExitCode::from(number))
    }

    fn file(dir: &tempfile::TempDir, text: &str) -> PathBuf {
        let path = dir.path().join("file.yaml");
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_purge_has_pods_whatever_the_scope_and_so_needs_an_image() {
        let set = vec!["global.resourceScope=cluster".to_owned()];
        let (code_of, out, stderr) = ran(&Request { purge: true, set, ..Request::default() });
        assert_eq!((code_of, out.as_str()), (code(1), ""));
        assert!(stderr.contains("names no image"), "{stderr}");
        let set = vec!["enabled=false".to_owned()];
        let (_, out, _) = ran(&Request { purge: true, set, ..named() });
        assert!(out.contains("istio-cni-purge"), "who uninstalled has values that install nothing: {out}");
    }

    #[test]
    fn both_outputs_have_the_same_objects() {
        let (code_of, text, stderr) = ran(&Request { release: "x".to_owned(), ..named() });
        assert_eq!((code_of, stderr.as_str()), (code(0), ""));
        let documents = ::manifests::document::read("out", &text).unwrap();
        let (_, list, _) =
            ran(&Request { release: "x".to_owned(), output: ManifestsOutput::Json, ..named() });
        let list: Value = serde_json::from_str(&list).unwrap();
        assert_eq!(list["items"], Value::from(documents));
        assert!(list["items"].as_array().unwrap().iter().any(|object| object["kind"] == "DaemonSet"));
    }

    #[test]
    fn the_values_that_are_shown_are_values_again() {
        let dir = tempfile::tempdir().unwrap();
        let of = |values: PathBuf| Request { values: vec![values], show_values: true, ..named() };
        let (_, shown, stderr) =
            ran(&of(file(&dir, "cni:\n  logLevel: debug\n  chained: false\n  excludeNamespaces: [shop]\n")));
        assert!(stderr.contains("logging.pluginLevel"), "{stderr}");
        assert!(shown.contains("shop"), "what is written to the ConfigMap alone is a value, too: {shown}");
        let (code_of, again, stderr) = ran(&of(file(&dir, &shown)));
        assert_eq!((code_of, again.as_str(), stderr.as_str()), (code(0), shown.as_str(), ""));
    }

    #[test]
    fn what_cleans_a_cluster_is_in_a_namespace_that_every_cluster_has() {
        for (namespace, want) in [(None, "kube-system"), (Some("mesh".to_owned()), "mesh")] {
            let (code_of, text, stderr) = ran(&Request { purge: true, namespace, ..named() });
            assert_eq!((code_of, stderr.as_str()), (code(0), ""));
            let objects = ::manifests::document::read("out", &text).unwrap();
            assert!(objects.iter().all(|object| object["metadata"]["namespace"] == want), "{text}");
            let purge = &objects[0]["spec"]["template"]["spec"]["initContainers"][0];
            assert_eq!(purge["args"], json!(["--purge", "--keep-used-binary"]));
        }
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once_and_nothing_is_rendered() {
        let dir = tempfile::tempdir().unwrap();
        let values = vec![file(&dir, "chaind: true\nprovider: x\n")];
        let (code_of, out, stderr) = ran(&Request { values, ..named() });
        assert_eq!((code_of, out.as_str(), stderr.lines().count()), (code(1), "", 2), "{stderr}");
        let values = vec![PathBuf::from("/nonexistent/values.yaml")];
        let (code_of, _, stderr) = ran(&Request { values, ..named() });
        assert!(
            code_of == code(1) && stderr.starts_with("/nonexistent/values.yaml: cannot be read: "),
            "{stderr}"
        );
    }

    #[test]
    fn without_an_image_nothing_is_rendered_and_what_to_set_is_told() {
        let (code_of, out, stderr) = ran(&Request::default());
        assert_eq!((code_of, out.as_str()), (code(1), ""));
        assert!(stderr.starts_with("hub: \"\": names no image: set hub and tag "), "{stderr}");
    }

    #[test]
    fn a_flag_of_the_agent_is_not_passed_over() {
        let flags = GivenFlags::from([(&manifests::table::CHAINED, "false".to_owned())]);
        let (mut out, mut stderr) = (Vec::new(), Vec::new());
        let code_of = run(&Request::default(), &flags, &mut out, &mut stderr).unwrap();
        assert_eq!((format!("{code_of:?}"), out.len()), (code(2), 0));
        assert!(String::from_utf8(stderr).unwrap().contains("--chained-cni-plugin"));
    }

    /// Environment of a rendered workload's container, and the `ConfigMap` of the agent's settings.
    fn settings_of(mode: &str) -> Vec<String> {
        let user = json!({
            "hostNetwork": true, "statusGate": "agent", "istioOwnedCNIConfig": true, "cniConfFileName": "x.conf",
            "istioOwnedCNIConfigFileName": "00-istio.conflist", "taint": { "mode": mode },
        });
        let objects =
            render(&Values::resolve(&user, &Context { image: named().image, ..Context::default() }).unwrap());
        let names = objects.iter().flat_map(|object| {
            let data =
                object["data"].as_object().filter(|_| object["metadata"]["name"] == "istio-cni-config");
            let env = object["spec"]["template"]["spec"]["containers"][0]["env"].as_array();
            let keys = data.into_iter().flatten().map(|(key, _)| key.clone());
            keys.chain(env.into_iter().flatten().filter_map(|one| Some(one["name"].as_str()?.to_owned())))
        });
        names.collect()
    }

    #[test]
    fn every_setting_that_is_rendered_is_one_that_the_agent_reads() {
        let known: BTreeSet<String> = manifests::table::keys().flat_map(|key| key.variables()).collect();
        // For people, and for tools that look for it.
        let unread = "CURRENT_AGENT_VERSION";
        for mode in ["node", "readiness", "untaint"] {
            let names = settings_of(mode);
            let strange: Vec<_> =
                names.iter().filter(|name| !known.contains(*name) && *name != unread).collect();
            assert!(strange.is_empty() && names.len() > 30, "{mode}: {strange:?} of {}", names.len());
        }
    }

    #[test]
    fn stdin_is_read_once() {
        let (code_of, _, stderr) =
            ran(&Request { values: vec!["-".into()], from: vec!["-".into()], ..named() });
        assert!(code_of == code(2) && stderr.contains("stdin"), "{stderr}");
    }
}
