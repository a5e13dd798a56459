// SPDX-License-Identifier: Apache-2.0
//! The command line: every key of [`crate::settings`] as a flag, and what a person at the node can ask for. A flag may be written with `-`
//! or with `_` between its words.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::{
    Arg, ArgAction, ArgMatches, Args, Command as Clap, CommandFactory as _, FromArgMatches, Parser,
    Subcommand,
};

use crate::USAGE;
use crate::manifests::Request;
use crate::probe::Probe;
use crate::status::StatusOutput;
use crate::taint;
use manifests::setting::Kind;
use manifests::setting::{From, Setting, TakesEffect};
use manifests::table;

const EXAMPLES: &str = "\
Every flag is an environment variable, too, in capitals with _ between its words, and, unless it is of the pod, its node, its DaemonSet
or the directory of namespaces, a key of the ConfigMap istio-cni-config, which the agent watches. A flag wins over the ConfigMap, that
over the environment.

Examples:
  install-cni                                     the node's agent, set up by its environment
  install-cni --log_output_level=default:info,cni-plugin:debug
  install-cni --chained-cni-plugin=false --cni-conf-name=istio-cni.conf    for Multus
  install-cni status                              what is installed here, what is wrong, what to do
  install-cni manifests --platform k3s            the objects that install it; see install-cni manifests --help";

const TAINT_EXAMPLES: &str = "\
It runs in a Deployment; of several replicas the one with the lease acts. /healthz and /readyz are on port 8000, /metrics on 15014. It
ends with 0 when it is told to stop, with 2 when the words or the ConfigMap make no sense, and with 1 when anything else keeps it from
its work.

Examples:
  install-cni taint --mode untaint --cni-namespace istio-system
      nodes are made with the taint cni.istio.io/not-ready and lose it once the agent is ready there
  install-cni taint --mode readiness --configmap-name istio-cni-taint-configmap
      nodes have the taint NodeReadiness while a pod that the ConfigMap names is not ready there
  install-cni taint --mode readiness --run-as-daemon=false
      puts every node right once, and ends";

/// Installs the CNI plugin on a node and keeps it installed.
#[derive(Debug, Parser)]
#[command(name = "install-cni", version, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do instead of running as the node's agent.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Remove everything of istio-cni from this node, its binary included, and end. For a node that no agent cleaned: drain it before, as
    /// pods that the plugin set up cannot be torn down without its binary. In a container it looks where the agent's mounts are, on the
    /// node itself where its runtime looks, and tells where that is.
    #[arg(long)]
    pub purge: bool,
    /// With --purge: the plugin's binary stays as long as the runtime needs it to tear pods down, as after an uninstall. For a node that is not
    /// drained.
    #[arg(long, requires = "purge")]
    pub keep_used_binary: bool,
    /// With --purge: where CNI plugins are, by comma, instead of finding out. --mounted-cni-net-dir says the same of configurations.
    #[arg(long, value_name = "DIR", value_delimiter = ',', requires = "purge")]
    pub cni_bin_dir: Vec<PathBuf>,
    /// The flags that were given.
    #[command(flatten)]
    pub flags: Flags,
}

/// What a person can ask for.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print what is installed on this node, what is wrong and what to do about it.
    Status {
        /// How it is told.
        #[arg(short = 'o', long, value_enum, default_value_t)]
        output: StatusOutput,
    },
    /// Render the objects that install the agent, from values of the chart, from an IstioOperator or from a ServiceMesh.
    Manifests(Box<Request>),
    /// Mind the taint that keeps pods off nodes until the plugin is ready there, for all nodes of the cluster.
    #[command(after_help = TAINT_EXAMPLES)]
    Taint(taint::TaintFlags),
    /// Ask the agent of this container whether it runs, or is ready: the kubelet's probe where the agent is on the node's network. Ends with 0 for yes, and
    /// prints what is missing.
    Probe {
        /// Endpoint of the agent.
        what: Probe,
    },
    /// Print the version, as upstream's command does.
    Version,
    /// Wait until told to stop, as a pod that has nothing more to do.
    #[command(hide = true)]
    Idle,
    /// Work in namespaces of pods, for the agent itself: a request on stdin, an answer on stdout.
    #[command(hide = true)]
    InPod,
}

/// Flags of the command line, as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags(pub BTreeMap<&'static Setting, String>);

impl Cli {
    /// Reads a command line, the program's name first.
    ///
    /// # Errors
    /// clap's: a mistake, or the help that was asked for.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let words = words.into_iter().map(|word| match word.to_str() {
            Some(text) => canonical(text).into(),
            None => word,
        });
        Self::from_arg_matches(&definition().try_get_matches_from(words)?)
    }
}

/// The commands. What renders objects does not show the flags of a running agent, whose settings are values there.
fn definition() -> Clap {
    let hidden = || flags().map(|key| argument(key).hide(true));
    Cli::command().mut_subcommand("manifests", |manifests| manifests.args(hidden()))
}

/// Tells a person what clap says of these words. A mistake ends with 1, as upstream's; one in a command that upstream does not have ends with
/// [`USAGE`], because 1 is an answer of such a command.
#[must_use]
pub fn report(error: &clap::Error, words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let printed = error.print();
    let commands: Vec<_> = Cli::command().get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let commanded = words.into_iter().skip(1).any(|word| commands.iter().any(|name| word == name.as_str()));
    match (error.use_stderr() || printed.is_err(), commanded) {
        (false, _) => ExitCode::SUCCESS,
        (true, false) => ExitCode::FAILURE,
        (true, true) => ExitCode::from(USAGE),
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = flags().filter_map(|key| Some((key, matches.get_one::<String>(key.name)?.clone())));
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}

impl Args for Flags {
    fn augment_args(command: Clap) -> Clap {
        flags().fold(command, |command, key| command.arg(argument(key)))
    }

    fn augment_args_for_update(command: Clap) -> Clap {
        Self::augment_args(command)
    }
}

fn flags() -> impl Iterator<Item = &'static Setting> {
    table::keys().filter(|key| key.from != From::Environment)
}

fn argument(key: &'static Setting) -> Arg {
    let mut help = StyledStr::from(key.help);
    if !key.default.is_empty() {
        help.push_str(&format!(" [default: {}]", key.default));
    }
    let argument = Arg::new(key.name)
        .long(key.name)
        .help_heading("Settings of the agent")
        .help(help)
        .global(true)
        .action(ArgAction::Set)
        .overrides_with(key.name)
        .hide(key.change == TakesEffect::Unread);
    match key.kind {
        Kind::Bool => {
            argument.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("BOOL")
        }
        _ => argument.value_name("VALUE").allow_hyphen_values(true),
    }
}

/// Flag in the spelling of its key; other words unchanged.
fn canonical(word: &str) -> String {
    let Some(body) = word.strip_prefix("--") else { return word.to_owned() };
    let (name, value) = body.split_once('=').map_or((body, None), |(name, value)| (name, Some(value)));
    let same = |key: &&Setting| key.name.replace('_', "-") == name.replace('_', "-");
    match (flags().find(|key| same(key)), value) {
        (None, _) => word.to_owned(),
        (Some(key), None) => format!("--{}", key.name),
        (Some(key), Some(value)) => format!("--{}={value}", key.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Cli, clap::Error> {
        Cli::read(["install-cni"].iter().chain(words).map(OsString::from))
    }

    fn given(words: &[&str]) -> Vec<(&'static str, String)> {
        read(words).unwrap().flags.0.into_iter().map(|(key, text)| (key.name, text)).collect()
    }

    #[test]
    fn the_commands_definition_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn only_what_was_given_is_there() {
        assert_eq!(given(&[]), []);
        let words = ["--cni-conf-name=a.conf", "--monitoring-port", "-1", "--skip-tls-verify"];
        let want = [("cni-conf-name", "a.conf"), ("monitoring-port", "-1"), ("skip-tls-verify", "true")];
        assert_eq!(given(&words), want.map(|(name, text)| (name, text.to_owned())));
    }

    #[test]
    fn both_spellings_are_one_flag_and_the_last_one_counts() {
        let words =
            ["--log-output-level=debug", "--log_output_level=info", "--cni_conf_name=x", "--log_as_json"];
        let want = [("cni-conf-name", "x"), ("log_as_json", "true"), ("log_output_level", "info")];
        assert_eq!(given(&words), want.map(|(name, text)| (name, text.to_owned())));
    }

    #[test]
    fn a_truth_value_is_text_and_takes_no_word_after_it() {
        assert_eq!(given(&["--chained-cni-plugin=nope"]), [("chained-cni-plugin", "nope".to_owned())]);
        let cli = read(&["--skip-tls-verify", "status"]).unwrap();
        assert!(matches!(cli.command, Some(Command::Status { .. })));
    }

    #[test]
    fn only_a_purge_can_keep_the_binary() {
        assert!(read(&["--purge", "--keep-used-binary"]).unwrap().keep_used_binary);
        assert!(read(&["--keep-used-binary"]).is_err());
    }

    #[test]
    fn what_is_no_flag_is_refused() {
        for words in [["--no-such-flag"], ["--node-name=x"], ["--kubernetes-service-host=x"], ["word"]] {
            assert!(read(&words).is_err(), "{words:?}");
        }
        assert_eq!(read(&["--version"]).unwrap_err().kind(), clap::error::ErrorKind::DisplayVersion);
        assert!(matches!(read(&["version"]).unwrap().command, Some(Command::Version)));
    }

    #[test]
    fn a_mistake_in_a_command_is_not_taken_for_its_answer() {
        for (words, code) in [
            (["status", "--no-such-flag"], ExitCode::from(USAGE)),
            (["status", "--output=xml"], ExitCode::from(USAGE)),
            (["--log_as_json", "--no-such-flag"], ExitCode::FAILURE),
        ] {
            let all = ["install-cni"].iter().chain(&words).map(OsString::from);
            let error = read(&words).unwrap_err();
            assert_eq!(format!("{:?}", report(&error, all)), format!("{code:?}"), "{words:?}");
        }
    }

    #[test]
    fn a_command_that_reads_no_flag_of_the_agent_shows_none_and_hears_them() {
        let help = |command: &str| read(&[command, "--help"]).unwrap_err().to_string();
        assert!(!help("manifests").contains("--chained-cni-plugin"), "{}", help("manifests"));
        assert!(
            help("manifests").contains("--kube-version") && help("status").contains("--chained-cni-plugin")
        );
        assert_eq!(given(&["manifests", "--chained-cni-plugin=false"]).len(), 1);
        assert_eq!(given(&["--chained-cni-plugin=false", "manifests"]).len(), 1);
    }

    #[test]
    fn help_shows_what_is_read_and_examples() {
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("--exclude-namespaces") && help.contains("Examples:"), "{help}");
        assert!(!help.contains("--ctrlz_port"), "{help}");
    }
}
