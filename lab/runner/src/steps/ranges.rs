// SPDX-License-Identifier: Apache-2.0
//! Addresses of pods in texts of features: what a cluster gives its pods is known once they run.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::steps::world::LabWorld;
use crate::stop::Stop;

/// `{NAME}` becomes the address of pod NAME in its first family, `{NAME+1}` the one after it, `{NAME/16}` the network of that length around it;
/// the pod is started. Braces around anything else stay.
pub(super) async fn resolved(world: &mut LabWorld, text: &str) -> Result<String, Stop> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, word, after)) = next(rest) {
        out.push_str(before);
        let (name, change) = parts(word);
        if world.pods.contains_key(name) {
            let address = of(world, name).await?;
            let changed = changed(address, change);
            out.push_str(&changed.ok_or_else(|| Stop::harness(format!("{{{word}}} is no address")))?);
        } else {
            out.push_str(&format!("{{{word}}}"));
        }
        rest = after;
    }
    Ok(out + rest)
}

/// Text before the first braces, between and after them.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (word, after) = rest.split_once('}')?;
    Some((before, word, after))
}

/// Name of the pod, and what follows it.
fn parts(word: &str) -> (&str, &str) {
    word.split_at(word.find(['/', '+']).unwrap_or(word.len()))
}

async fn of(world: &mut LabWorld, name: &str) -> Result<IpAddr, Stop> {
    let family = world.pod(name)?.families.list().remove(0);
    world.run_pod(name).await?;
    super::traffic::address(world, name, family).await
}

fn changed(address: IpAddr, change: &str) -> Option<String> {
    if change.is_empty() {
        return Some(address.to_string());
    }
    let (sign, number) = change.split_at(1);
    match sign {
        "/" => network(address, number.parse().ok()?).map(|network| format!("{network}/{number}")),
        _ => Some(after(address, number.parse().ok()?).to_string()),
    }
}

fn network(address: IpAddr, length: u32) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => {
            let host = u32::BITS.checked_sub(length)?;
            let mask = u32::MAX.checked_shl(host).unwrap_or_default();
            Some(Ipv4Addr::from_bits(address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let host = u128::BITS.checked_sub(length)?;
            let mask = u128::MAX.checked_shl(host).unwrap_or_default();
            Some(Ipv6Addr::from_bits(address.to_bits() & mask).into())
        }
    }
}

fn after(address: IpAddr, count: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits().wrapping_add(count.into())).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits().wrapping_add(count.into())).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_becomes_its_network_or_its_neighbour() {
        for (address, change, is) in [
            ("10.42.7.9", "", Some("10.42.7.9")),
            ("10.42.7.9", "/16", Some("10.42.0.0/16")),
            ("10.42.7.9", "/0", Some("0.0.0.0/0")),
            ("10.42.7.9", "/32", Some("10.42.7.9/32")),
            ("10.42.7.9", "/33", None),
            ("10.42.7.9", "+1", Some("10.42.7.10")),
            ("fd00:200:1::5", "/32", Some("fd00:200::/32")),
            ("fd00:200:1::5", "/0", Some("::/0")),
            ("fd00:200:1::5", "+x", None),
        ] {
            assert_eq!(changed(address.parse().unwrap(), change).as_deref(), is, "{address}{change}");
        }
    }

    #[test]
    fn braces_are_found_one_after_the_other() {
        assert_eq!(next("192.0.2.0/24,{outside/16}!"), Some(("192.0.2.0/24,", "outside/16", "!")));
        assert_eq!(next("none"), None);
        assert_eq!(
            [parts("outside/16"), parts("outside+1"), parts("a")],
            [("outside", "/16"), ("outside", "+1"), ("a", "")]
        );
    }
}
