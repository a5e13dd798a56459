// SPDX-License-Identifier: Apache-2.0
//! Allocations of addresses: one file in the state directory, changed under a lock, replaced atomically.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use super::Error;
use super::conf::{Range, Wanted};

/// The first pod's address in a range: `.0` is the network, `.1` is left to whoever wants a gateway there.
const FIRST: u128 = 2;

/// Searched part of a range: more pods than a node can have.
const SPAN: u128 = 65_536;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Held {
    /// Holder by address.
    held: BTreeMap<IpAddr, String>,
    /// The offset given out last in each range: a freed address is not used again at once.
    last: BTreeMap<String, u128>,
}

/// Allocations of one state directory.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
}

impl Store {
    /// Allocations in `directory`, which is created on demand.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Gives `holder` one address for each of `wanted`, in order; all or none.
    pub fn allocate(&self, wanted: &[Wanted], holder: &str) -> Result<Vec<IpAddr>, Error> {
        self.change(|held| {
            wanted
                .iter()
                .map(|wanted| {
                    let address = match wanted {
                        Wanted::Exactly(address) => *address,
                        Wanted::From(range) => held.next(*range)?,
                    };
                    held.held.insert(address, holder.to_owned());
                    Ok(address)
                })
                .collect()
        })
    }

    /// Releases all addresses of `holder`.
    pub fn release(&self, holder: &str) -> Result<(), Error> {
        self.change(|held| {
            held.held.retain(|_, by| by != holder);
            Ok(())
        })
    }

    /// Releases the addresses of all other holders.
    pub fn keep_only(&self, holders: &[String]) -> Result<(), Error> {
        self.change(|held| {
            held.held.retain(|_, by| holders.contains(by));
            Ok(())
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Held) -> Result<T, Error>) -> Result<T, Error> {
        let failed = |error| Error::Io("keep the allocations", error);
        fs::create_dir_all(&self.directory).map_err(failed)?;
        let lock = File::create(self.directory.join("lock")).map_err(failed)?;
        let _locked = Flock::lock(lock, FlockArg::LockExclusive)
            .map_err(|(_, errno)| failed(io::Error::from(errno)))?;
        let file = self.directory.join("addresses.json");
        let mut held: Held = match fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| failed(error.into()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Held::default(),
            Err(error) => return Err(failed(error)),
        };
        let outcome = change(&mut held)?;
        let next = self.directory.join("addresses.next");
        let text = serde_json::to_vec(&held).map_err(|error| failed(error.into()))?;
        fs::write(&next, text).and_then(|()| fs::rename(&next, &file)).map_err(failed)?;
        Ok(outcome)
    }
}

impl Held {
    fn next(&mut self, range: Range) -> Result<IpAddr, Error> {
        let name = format!("{}/{}", range.network, range.length);
        let bits = if range.network.is_ipv4() { 32 } else { 128 };
        // One less than the size in IPv4 keeps the broadcast address free; in IPv6 nobody misses the last one.
        let size = 1_u128.checked_shl(u32::from(bits - range.length)).unwrap_or(u128::MAX);
        let usable = size.saturating_sub(FIRST + 1).min(SPAN);
        let start = self.last.get(&name).map_or(0, |last| last + 1);
        let free = (0..usable)
            .map(|step| (start + step) % usable)
            .find(|offset| !self.held.contains_key(&plus(range.network, FIRST + offset)));
        let offset = free.ok_or_else(|| Error::Exhausted(name.clone()))?;
        self.last.insert(name, offset);
        Ok(plus(range.network, FIRST + offset))
    }
}

fn plus(network: IpAddr, offset: u128) -> IpAddr {
    match network {
        IpAddr::V4(network) => {
            let offset = u32::try_from(offset).unwrap_or(u32::MAX);
            Ipv4Addr::from(u32::from(network).wrapping_add(offset)).into()
        }
        IpAddr::V6(network) => Ipv6Addr::from(u128::from(network).wrapping_add(offset)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(range: &str) -> Wanted {
        Wanted::From(range.to_owned().try_into().unwrap())
    }

    #[test]
    fn both_families_are_given_in_the_order_asked() {
        let dir = tempfile::tempdir().unwrap();
        let got = Store::new(dir.path()).allocate(&[from("fd00::/64"), from("10.0.0.0/24")], "a").unwrap();
        assert_eq!(got, ["fd00::2".parse::<IpAddr>().unwrap(), "10.0.0.2".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn a_range_runs_out_and_recovers() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let wanted = [from("10.0.0.0/29")];
        for pod in 0..5 {
            store.allocate(&wanted, &pod.to_string()).unwrap();
        }
        assert!(matches!(store.allocate(&wanted, "x"), Err(Error::Exhausted(_))));
        store.release("3").unwrap();
        store.release("3").unwrap();
        assert_eq!(store.allocate(&wanted, "x").unwrap(), ["10.0.0.5".parse::<IpAddr>().unwrap()]);
        store.keep_only(&["x".to_owned()]).unwrap();
        let again = store.allocate(&wanted, "y").unwrap();
        assert_eq!(again, ["10.0.0.6".parse::<IpAddr>().unwrap()], "a freed address rests");
    }

    #[test]
    fn an_allocation_that_fails_keeps_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        assert!(store.allocate(&[from("10.0.0.0/24"), from("10.1.0.0/31")], "a").is_err());
        assert_eq!(
            store.allocate(&[from("10.0.0.0/24")], "b").unwrap(),
            ["10.0.0.2".parse::<IpAddr>().unwrap()]
        );
    }
}
