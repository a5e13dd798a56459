// SPDX-License-Identifier: Apache-2.0
//! A table of legacy iptables as the kernel hands it out: entries one behind the other, each with the length of itself; pure.
//!
//! A built-in chain begins and ends where the table's head says; its last entry is its policy. A chain of others begins behind an
//! entry with target `ERROR`, which holds its name, and ends with a `RETURN` that nobody wrote. A jump is the offset of the first
//! entry of its chain. The table ends with an entry named `ERROR`.

use redirect::found::{Action, Condition, Entry as Called, FoundChain, FoundRule, Policy, save};
use redirect::ruleset::{Dialect, Family, Table};

use super::rule::{self, Verdict, lossy};

/// Length of `struct ipt_getinfo`.
pub(super) const INFO_LENGTH: usize = 32 + 4 + 20 + 20 + 4 + 4;
/// The built-in chains by number of their hook.
const HOOKS: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];
/// Length of the head of a match or target: `struct xt_entry_match`.
pub(super) const EXTENSION_HEADER: usize = 32;

/// The number at an offset, in host order.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

/// The short number at an offset, in host order.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

/// The text up to its NUL.
pub(super) fn name(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The head of a table: `struct ipt_getinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Info {
    /// Its hooks, as bits.
    pub(super) hooks: u32,
    /// Where the chain of each hook begins.
    pub(super) entry: [u32; 5],
    /// Where the policy of each hook is.
    pub(super) policy: [u32; 5],
    /// Length of all entries.
    pub(super) size: u32,
}

impl Info {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let list = |at: usize| -> Option<[u32; 5]> {
            let mut numbers = [0; 5];
            for (index, number) in numbers.iter_mut().enumerate() {
                *number = u32_at(bytes, at + 4 * index)?;
            }
            Some(numbers)
        };
        Some(Self {
            hooks: u32_at(bytes, 32)?,
            entry: list(36)?,
            policy: list(56)?,
            size: u32_at(bytes, 80)?,
        })
    }

    /// The hook whose chain begins at an offset, by `starts`.
    fn hook_at(&self, starts: &[u32; 5], offset: u32) -> Option<&'static str> {
        let mut hooks = HOOKS.iter().zip(starts).enumerate();
        hooks
            .find(|(bit, (_, start))| self.hooks & (1 << bit) != 0 && **start == offset)
            .map(|(_, (name, _))| *name)
    }
}

/// Where the parts of an entry are: `struct ipt_entry`, `struct ip6t_entry`.
struct Layout {
    target_offset: usize,
    next_offset: usize,
    counters: usize,
    length: usize,
}

impl Layout {
    fn of(family: Family) -> Self {
        match family {
            Family::V4 => Self { target_offset: 88, next_offset: 90, counters: 96, length: 112 },
            Family::V6 => Self { target_offset: 140, next_offset: 142, counters: 152, length: 168 },
        }
    }
}

/// One entry, cut into its parts.
pub(super) struct Entry<'a> {
    offset: u32,
    /// The offset of the entry behind it.
    next: u32,
    /// `struct ipt_ip` or `struct ip6t_ip6`.
    pub(super) head: &'a [u8],
    /// All matches.
    pub(super) matches: &'a [u8],
    /// The target with its head.
    pub(super) target: &'a [u8],
    packets: u64,
}

impl<'a> Entry<'a> {
    /// The entry at the beginning of `bytes`.
    fn parse(layout: &Layout, offset: u32, bytes: &'a [u8]) -> Option<Self> {
        let length = u16_at(bytes, layout.next_offset)?;
        let target = usize::from(u16_at(bytes, layout.target_offset)?);
        let entry = bytes.get(..usize::from(length))?;
        // Also a length of nothing ends here.
        let (head, matches) = (entry.get(..layout.length)?, entry.get(layout.length..target)?);
        let packets = u64_at(head, layout.counters)?;
        let target = entry.get(target..).filter(|target| target.len() >= EXTENSION_HEADER)?;
        Some(Self { offset, next: offset.checked_add(length.into())?, head, matches, target, packets })
    }

    /// The name behind target `ERROR`.
    fn chain_name(&self) -> Option<&'a [u8]> {
        let (header, info) = self.target.split_at_checked(EXTENSION_HEADER)?;
        (name(header.get(2..31)?) == b"ERROR").then(|| name(info))
    }
}

fn entries(family: Family, bytes: &[u8]) -> Option<Vec<Entry<'_>>> {
    let layout = Layout::of(family);
    let mut found = Vec::new();
    let (mut rest, mut offset) = (bytes, 0);
    while !rest.is_empty() {
        let entry = Entry::parse(&layout, offset, rest)?;
        rest = rest.get(usize::try_from(entry.next - offset).ok()?..)?;
        offset = entry.next;
        found.push(entry);
    }
    Some(found)
}

/// A chain that is being read.
struct Open<'a> {
    name: &'a [u8],
    start: u32,
    policy: Option<Policy>,
    entries: Vec<Entry<'a>>,
}

/// The chains of a table; `None` if the bytes are not one.
pub(super) fn chains((family, table): (Family, Table), info: &Info, bytes: &[u8]) -> Option<Vec<FoundChain>> {
    let mut open: Vec<Open<'_>> = Vec::new();
    for entry in entries(family, bytes)? {
        if let Some(name) = info.hook_at(&info.entry, entry.offset) {
            let name = name.as_bytes();
            open.push(Open { name, start: entry.offset, policy: None, entries: Vec::new() });
        } else if let Some(name) = entry.chain_name() {
            open.push(Open { name, start: entry.next, policy: None, entries: Vec::new() });
            continue;
        }
        let chain = open.last_mut()?;
        if info.hook_at(&info.policy, entry.offset).is_some() {
            chain.policy = Some(policy(&entry)?);
        } else {
            chain.entries.push(entry);
        }
    }
    // The mark of the table's end looks like a chain without anything.
    open.pop().filter(|end| end.name == b"ERROR" && end.entries.is_empty())?;
    let starts: Vec<(u32, &[u8])> = open.iter().map(|chain| (chain.start, chain.name)).collect();
    open.into_iter().map(|chain| close((family, table), chain, &starts)).collect()
}

fn policy(entry: &Entry<'_>) -> Option<Policy> {
    match rule::verdict(entry)? {
        Verdict::Accept => Some(Policy::Accept),
        Verdict::Drop => Some(Policy::Drop),
        _ => None,
    }
}

fn close(
    (family, table): (Family, Table),
    mut chain: Open<'_>,
    starts: &[(u32, &[u8])],
) -> Option<FoundChain> {
    if chain.policy.is_none() {
        chain.entries.pop()?;
    }
    let rules = chain.entries.iter().map(|entry| {
        let conditions = rule::conditions(family, entry)?;
        let known: Vec<_> = conditions.iter().filter_map(Condition::known).cloned().collect();
        let (actions, target) = match rule::verdict(entry) {
            Some(Verdict::Jump(next)) if next == entry.next => (Vec::new(), String::new()),
            Some(Verdict::Jump(start)) => {
                let name = lossy(starts.iter().find(|(known, _)| *known == start)?.1);
                if rule::is_goto(family, entry) {
                    (vec![Action::Goto(name.clone())], format!("-g {name}"))
                } else {
                    (vec![Action::Jump(name.clone())], format!("-j {name}"))
                }
            }
            verdict => rule::outcome(verdict, entry, &known)?,
        };
        let text = rule::spell(&conditions, &known, target);
        let packets = Some(entry.packets);
        Some(FoundRule { conditions, actions, dialect: Dialect::Iptables, text, packets, handle: None })
    });
    let rules = rules.collect::<Option<_>>()?;
    let name = lossy(chain.name);
    let entry = match chain.policy {
        Some(policy) => Some(Called { policy, ..save::entry(table.name(), &name)? }),
        None => None,
    };
    Some(FoundChain { name, entry, rules, handle: None })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A table `filter` as the kernel makes it, with a chain of somebody in it: `INPUT` with one rule, policies, `MINE` with nothing.
    fn table() -> (Info, Vec<u8>) {
        let mut bytes = Vec::new();
        let entry = |bytes: &mut Vec<u8>, name: &[u8], info: &[u8]| {
            let start = bytes.len();
            let mut entry = vec![0; 112];
            entry[88..90].copy_from_slice(&112_u16.to_ne_bytes());
            let length = u16::try_from(112 + 32 + info.len()).unwrap();
            entry[90..92].copy_from_slice(&length.to_ne_bytes());
            entry[96..104].copy_from_slice(&7_u64.to_ne_bytes());
            let mut target = vec![0; 32];
            target[2..2 + name.len()].copy_from_slice(name);
            bytes.extend([entry, target, info.to_vec()].concat());
            u32::try_from(start).unwrap()
        };
        let verdict = |number: i32| [number.to_ne_bytes(), [0; 4]].concat();
        let name = |text: &[u8]| [text, &vec![0; 32 - text.len()]].concat();
        // Behind four entries with a verdict and one with a name.
        let mine = 4 * (112 + 40) + (112 + 64);
        let input = entry(&mut bytes, b"", &verdict(mine));
        let input_policy = entry(&mut bytes, b"", &verdict(-2));
        let forward = entry(&mut bytes, b"", &verdict(-1));
        let output = entry(&mut bytes, b"", &verdict(-2));
        entry(&mut bytes, b"ERROR", &name(b"MINE"));
        assert_eq!(i32::try_from(bytes.len()), Ok(mine));
        entry(&mut bytes, b"", &verdict(-5));
        entry(&mut bytes, b"ERROR", &name(b"ERROR"));
        let info = Info {
            hooks: 0b1110,
            entry: [0, input, forward, output, 0],
            policy: [0, input_policy, forward, output, 0],
            size: u32::try_from(bytes.len()).unwrap(),
        };
        (info, bytes)
    }

    #[test]
    fn chains_policies_and_jumps_are_found() {
        let (info, bytes) = table();
        let chains = chains((Family::V4, Table::Filter), &info, &bytes).unwrap();
        let shape: Vec<_> = chains
            .iter()
            .map(|chain| (chain.name.as_str(), chain.entry.map(|entry| entry.policy), chain.rules.len()))
            .collect();
        let expected = [
            ("INPUT", Some(Policy::Accept), 1),
            ("FORWARD", Some(Policy::Drop), 0),
            ("OUTPUT", Some(Policy::Accept), 0),
            ("MINE", None, 0),
        ];
        assert_eq!(shape, expected);
        let rule = &chains[0].rules[0];
        assert_eq!(rule.actions, [Action::Jump("MINE".to_owned())]);
        assert_eq!((rule.conditions.len(), rule.packets), (0, Some(7)));
    }

    #[test]
    fn a_table_that_was_cut_is_none() {
        let (info, bytes) = table();
        for length in 0..bytes.len() {
            assert_eq!(chains((Family::V4, Table::Filter), &info, &bytes[..length]), None, "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..600), head in any::<[u8; INFO_LENGTH]>()) {
            let info = Info::parse(&head).unwrap();
            for family in [Family::V4, Family::V6] {
                let _ = chains((family, Table::Filter), &info, &bytes);
            }
        }

        #[test]
        fn a_table_that_was_changed_anywhere_is_read(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let (info, mut bytes) = table();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = chains((Family::V4, Table::Filter), &info, &bytes);
            let _ = chains((Family::V6, Table::Filter), &info, &bytes[cut.index(bytes.len())..]);
        }

        #[test]
        fn any_extension_is_read(name in "tcp|udp|owner|multiport|conntrack|mark|connmark|REDIRECT|MARK|TPROXY|CONNMARK|CT", revision in 0..4_u8, info in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut extension = vec![0; 32];
            extension[2..2 + name.len()].copy_from_slice(name.as_bytes());
            extension[31] = revision;
            extension.extend(info);
            let length = u16::try_from(extension.len()).unwrap();
            extension[..2].copy_from_slice(&length.to_ne_bytes());
            for family in [Family::V4, Family::V6] {
                let layout = Layout::of(family);
                let head = vec![0; layout.length];
                let entry = Entry { offset: 0, next: 1, head: &head, matches: &extension, target: &extension, packets: 0 };
                prop_assert_eq!(rule::conditions(family, &entry).is_some(), true);
                let _ = rule::outcome(rule::verdict(&entry), &entry, &[]);
            }
        }
    }
}
