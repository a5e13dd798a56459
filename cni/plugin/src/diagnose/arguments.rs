// SPDX-License-Identifier: Apache-2.0
//! The command line of `istio-cni diagnose`. Read by hand: a command-line library would double the plugin.

use std::path::PathBuf;

/// Text of `--help`.
pub const HELP: &str = "\
Compares the redirection rules of a running pod with what the pod should have.

Usage: istio-cni diagnose (--netns PATH | --pid N) [--pod NAMESPACE/NAME | --pod-json FILE] [--conf FILE] [-o human|json]

  --netns PATH          the pod's network namespace, as in /var/run/netns/cni-...
  --pid N               a process of the pod, instead
  --pod NAMESPACE/NAME  the pod, as the API server has it now; --conf says how to ask
  --pod-json FILE       the pod, as kubectl get pod -o json prints it; with --conf, what that excludes counts
  --conf FILE           the CNI configuration [default: the first file that names istio-cni, in the agent's directory, in the runtime's,
                        in the usual ones of platforms, in Multus']
  -o human|json         the output [default: human]

Without a pod the rules are compared with those of a sidecar without annotations. In the node agent's container (kubectl exec), processes
and paths are the node's.

Examples:
  istio-cni diagnose --pid 4711 --pod shop/cart
  kubectl get pod cart -o json > cart.json; istio-cni diagnose --netns /var/run/netns/cni-8a1f --pod-json cart.json -o json

Exit codes: 0 as it should be, 1 it differs, 2 nobody can tell, 64 the command line is wrong
";

/// Output format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Output {
    /// For people.
    #[default]
    Human,
    /// For programs.
    Json,
}

/// Identity of the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PodWanted {
    /// Nobody said.
    #[default]
    Unknown,
    /// By name.
    Named {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// As it is in this file.
    Json(PathBuf),
}

/// Parsed arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The network namespace.
    pub netns: PathBuf,
    /// The pod.
    pub pod: PodWanted,
    /// The CNI configuration.
    pub conf: Option<PathBuf>,
    /// Output format.
    pub output: Output,
}

/// A command line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// Somebody wants to know how to.
    #[error("help")]
    Help,
    /// An option that there is not.
    #[error("{0:?} is not an option of diagnose")]
    Unknown(String),
    /// An option without its value.
    #[error("option {0} needs a value")]
    NoValue(String),
    /// A value that cannot be.
    #[error("{value:?} cannot be the value of {option}: {wanted}")]
    Value {
        /// The option.
        option: String,
        /// The value.
        value: String,
        /// Expected form.
        wanted: &'static str,
    },
    /// Nobody said which namespace.
    #[error("which network namespace? Give --netns PATH or --pid N")]
    NoNetns,
}

/// Reads what stands behind `diagnose`.
///
/// # Errors
/// See [`UsageError`].
pub fn parse(arguments: &[String]) -> Result<Arguments, UsageError> {
    let mut read = Arguments::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let (option, attached) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        if matches!(option, "-h" | "--help") {
            return Err(UsageError::Help);
        }
        let value = || {
            attached.or_else(|| words.next().cloned()).ok_or_else(|| UsageError::NoValue(option.to_owned()))
        };
        let wrong = |value: String, wanted| UsageError::Value { option: option.to_owned(), value, wanted };
        match option {
            "--netns" => read.netns = value()?.into(),
            "--pid" => {
                let text = value()?;
                let pid: u32 = text.parse().map_err(|_| wrong(text, "it must be the number of a process"))?;
                read.netns = format!("/proc/{pid}/ns/net").into();
            }
            "--pod" => {
                let text = value()?;
                read.pod = match text.split_once('/') {
                    Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                        PodWanted::Named { namespace: namespace.to_owned(), name: name.to_owned() }
                    }
                    _ => return Err(wrong(text, "it must be NAMESPACE/NAME")),
                };
            }
            "--pod-json" => read.pod = PodWanted::Json(value()?.into()),
            "--conf" => read.conf = Some(value()?.into()),
            "-o" | "--output" => {
                read.output = match value()?.as_str() {
                    "human" => Output::Human,
                    "json" => Output::Json,
                    other => return Err(wrong(other.to_owned(), "it must be human or json")),
                };
            }
            other => return Err(UsageError::Unknown(other.to_owned())),
        }
    }
    if read.netns.as_os_str().is_empty() {
        return Err(UsageError::NoNetns);
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Arguments, UsageError> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_in_both_spellings() {
        let arguments = read("--pid 7 --pod shop/cart --conf=/c -o json").unwrap();
        assert_eq!(arguments.netns, PathBuf::from("/proc/7/ns/net"));
        assert_eq!(arguments.pod, PodWanted::Named { namespace: "shop".into(), name: "cart".into() });
        assert_eq!((arguments.conf, arguments.output), (Some("/c".into()), Output::Json));
        let json = read("--netns=/n --pod-json p.json").unwrap();
        assert_eq!((json.netns, json.pod), ("/n".into(), PodWanted::Json("p.json".into())));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (line, wanted) in [
            ("", "which network namespace? Give --netns PATH or --pid N"),
            ("--pid", "option --pid needs a value"),
            ("--pid x", "\"x\" cannot be the value of --pid: it must be the number of a process"),
            ("--pod cart", "\"cart\" cannot be the value of --pod: it must be NAMESPACE/NAME"),
            ("-o yaml", "\"yaml\" cannot be the value of -o: it must be human or json"),
            ("cart", "\"cart\" is not an option of diagnose"),
        ] {
            assert_eq!(read(line).unwrap_err().to_string(), wanted, "{line}");
        }
        assert_eq!(read("--pid 1 --help"), Err(UsageError::Help));
    }
}
