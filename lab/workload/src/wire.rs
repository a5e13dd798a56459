// SPDX-License-Identifier: Apache-2.0
//! A link from this namespace to a router in another one, with the routes of both: what a machine's network has before any pod.

use std::fs::File;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context as _;
use clap::Args;

use crate::basenet::conf::Range;
use crate::basenet::link::{Ends, Reach, connect_ends};
use crate::translate::{self, Translations};

#[derive(Debug, Clone, Args)]
pub struct WireOptions {
    /// The router's namespace.
    #[arg(long)]
    to: PathBuf,
    /// Name of the link there.
    #[arg(long)]
    name: String,
    /// An address of this end, and the router's beside it.
    #[arg(long = "lane", value_name = "ADDRESS=ADDRESS")]
    lanes: Vec<Lane>,
    /// A further address of this end. Who forwards IPv6 asks for neighbors from a link-local address, and the kernel's own is not usable for a
    /// second.
    #[arg(long = "own")]
    own: Vec<IpAddr>,
    /// A range that is reached through the router; without any, everything is.
    #[arg(long = "reach", value_parser = range)]
    reach: Vec<Range>,
    /// A range that the router reaches through this end.
    #[arg(long = "behind", value_parser = range)]
    behind: Vec<Range>,
    /// Translations of this end, in the form that `translate` reads.
    #[arg(long, value_name = "JSON")]
    translate: Option<Translations>,
}

#[derive(Debug, Clone, Copy)]
struct Lane(IpAddr, IpAddr);

impl FromStr for Lane {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair =
            text.split_once('=').and_then(|(own, beside)| Some((own.parse().ok()?, beside.parse().ok()?)));
        pair.map(|(own, beside)| Self(own, beside)).ok_or_else(|| format!("{text:?} is no pair of addresses"))
    }
}

fn range(text: &str) -> Result<Range, String> {
    Range::try_from(text.to_owned())
}

pub async fn run(options: &WireOptions) -> anyhow::Result<()> {
    let there = File::open(&options.to).with_context(|| format!("open {}", options.to.display()))?;
    let lanes: Vec<_> = options.lanes.iter().map(|lane| (lane.0, lane.1)).collect();
    let ends = Ends { here: "eth0", there: &options.name };
    let reach = Reach { beyond: &options.reach, behind: &options.behind, own: &options.own };
    connect_ends(&there, ends, &lanes, reach).await?;
    options.translate.as_ref().map_or(Ok(()), translate::replace)
}
