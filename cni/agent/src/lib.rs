// SPDX-License-Identifier: Apache-2.0
//! The node agent: installs the plugin and keeps it installed, answers the plugin's questions about pods, repairs pods that came
//! up without redirection, and leaves cleanly.
//!
//! Each part is `gather -> decide -> apply`; what is decided is pure and told the time.
//!
//! | module | what |
//! |---|---|
//! | [`api`] | the API server: requests, and collections that are followed |
//! | [`cli`] | the command line |
//! | [`run`] | starts the parts in order, tells all to end, and waits for the installer first |
//! | `signals` | SIGTERM and SIGINT |
//! | [`settings`] | flags, environment, the watched ConfigMap: one set of settings, each with its origin |
//! | [`reload`] | the settings while the agent runs |
//! | `label` | enums whose values have one spelling |
//! | [`leave`] | why the agent stops: keep what is installed, or remove it |
//! | [`readiness`] | what still keeps the agent from being ready |
//! | [`events`] | Kubernetes events: aggregated, bounded, never waited for |
//! | `accept` | connections, a bounded number at a time |
//! | [`http`] | `/metrics`, `/healthz` and `/readyz` |
//! | [`log`] | the log, its levels and its lines |
//! | [`mod@manifests`] | the objects that install it, for an operator |
//! | [`metrics`] | what the agent counts |
//! | [`install`] | the plugin on the node: installs, heals, uninstalls |
//! | [`conflist`] | configurations of networks: what to change in them |
//! | [`files`], [`file_error`], [`watch`] | files that are whole; why one is not, and the remedy; directories that change |
//! | [`status`] | what a person at the node is told |
//! | [`selector`] | label and field selectors of the API; pure |
//! | [`pods`] | the node's pods as the API server tells of them |
//! | [`serve`] | the sockets that the plugin talks to |
//! | [`repair`] | pods that came up without redirection |
//! | [`ambient`] | pods of ambient mode, which nothing serves here |
//! | [`runtime`] | the container runtime: whether it has loaded our entry |
//! | `time` | delays |
//! | [`taint`] | nodes that carry a taint until the plugin is ready there |

mod accept;
pub mod ambient;
pub mod api;
pub mod cli;
pub mod conflist;
pub mod events;
pub mod file_error;
pub mod files;
pub mod http;
pub mod install;
mod label;
pub mod leave;
pub mod log;
pub mod manifests;
pub mod metrics;
pub mod pods;
pub mod probe;
pub mod readiness;
pub mod reload;
pub mod repair;
pub mod run;
pub mod runtime;
pub mod selector;
pub mod serve;
pub mod settings;
mod signals;
pub mod status;
pub mod taint;
mod time;
pub mod watch;

/// Exit code of a usage error.
const USAGE: u8 = 2;
