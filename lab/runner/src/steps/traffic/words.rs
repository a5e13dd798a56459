// SPDX-License-Identifier: Apache-2.0
//! The words in which features speak of traffic.

use std::str::FromStr;

use cluster::Transport;
use redirect::ruleset::Family;

/// Expected end of traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// The addressee's app answers, without proxies in between.
    Direct,
    /// The addressee's app answers, after these ports of proxies.
    Passes(Vec<u16>),
    /// A proxy answers by itself, on this port.
    EndsAt(u16),
}

impl FromStr for Ending {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = |text: &str| text.parse::<u16>().map_err(|_| format!("{text:?} is no port"));
        if text == "is direct" {
            Ok(Self::Direct)
        } else if let Some(ports) = text.strip_prefix("passes ") {
            ports.split(" and ").map(port).collect::<Result<_, _>>().map(Self::Passes)
        } else if let Some(at) = text.strip_prefix("ends at ") {
            port(at).map(Self::EndsAt)
        } else {
            Err(format!("{text:?} is no ending of traffic"))
        }
    }
}

/// One line of a feature: sender, traffic and addressee.
pub(super) struct Line {
    pub(super) from: Sender,
    pub(super) to: String,
    pub(super) transport: Transport,
    pub(super) port: u16,
    pub(super) how: How,
}

impl Line {
    pub(super) fn new(transport: &str, from: &str, to: String, port: u16, how: How) -> Self {
        let transport = if transport == "TCP" { Transport::Tcp } else { Transport::Udp };
        Self { from: Sender::new(from), to, transport, port, how }
    }
}

/// Sender: a pod, or the guest in it.
pub(super) struct Sender {
    pub(super) pod: String,
    pub(super) is_guest: bool,
}

impl Sender {
    pub(super) fn new(words: &str) -> Self {
        let is_guest = words.starts_with("the guest of ");
        Self { pod: words.trim_start_matches("the guest of ").trim_matches('"').to_owned(), is_guest }
    }
}

/// Options of the way, and of the sending socket.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct How {
    pub(super) family: Option<Family>,
    pub(super) interface: Option<String>,
    pub(super) owner: Option<String>,
    pub(super) source_port: u16,
}

impl FromStr for How {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut how = Self::default();
        let words = text.replace(" over ", "\nover ").replace(" as ", "\nas ").replace(" from ", "\nfrom ");
        for part in words.lines().filter(|part| !part.is_empty()) {
            match part.split_once(' ') {
                Some(("over", "IPv4")) => how.family = Some(Family::V4),
                Some(("over", "IPv6")) => how.family = Some(Family::V6),
                Some(("over", interface)) => how.interface = Some(interface.to_owned()),
                Some(("as", owner)) => how.owner = Some(owner.to_owned()),
                Some(("from", port)) => {
                    let port = port.trim_start_matches("port ").parse();
                    how.source_port = port.map_err(|_| format!("{part:?} names no port"))?;
                }
                _ => return Err(format!("{part:?} says nothing about traffic")),
            }
        }
        Ok(how)
    }
}

impl Line {
    pub(super) fn family(&self) -> Family {
        self.how.family.unwrap_or(Family::V4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_read() {
        assert_eq!("is direct".parse(), Ok(Ending::Direct));
        assert_eq!("passes 15001 and 15006".parse(), Ok(Ending::Passes(vec![15001, 15006])));
        assert_eq!("ends at 15021".parse(), Ok(Ending::EndsAt(15021)));
        assert!("vanishes".parse::<Ending>().is_err());
    }

    #[test]
    fn the_way_is_read_in_any_combination() {
        let how = |text: &str| text.parse::<How>().unwrap();
        assert_eq!(how(""), How::default());
        assert_eq!(how(" over net1 over IPv6").interface.as_deref(), Some("net1"));
        assert_eq!(how(" over net1 over IPv6").family, Some(Family::V6));
        let all = how(" over IPv4 as its proxy's user from port 4000");
        assert_eq!((all.owner.as_deref(), all.source_port), (Some("its proxy's user"), 4000));
        assert!(" beyond".parse::<How>().is_err());
    }
}
