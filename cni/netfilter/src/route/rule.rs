// SPDX-License-Identifier: Apache-2.0
//! Policy rules as the kernel lists them, and where one of ours goes among them. Pure.

use crate::wire::{Malformed, attributes, fixed};

/// Length of `struct fib_rule_hdr`.
const HEADER: usize = 12;
/// `FR_ACT_TO_TBL`: look a table up.
pub(super) const LOOK_UP: u8 = 1;
/// `FIB_RULE_INVERT`: the rule holds for what it does not match.
const INVERTED: u32 = 0x2;
pub(super) const FRA_PRIORITY: u16 = 6;
pub(super) const FRA_FWMARK: u16 = 10;
const FRA_FLOW: u16 = 11;
const FRA_SUPPRESS_GROUP: u16 = 13;
const FRA_SUPPRESS_PREFIX: u16 = 14;
pub(super) const FRA_TABLE: u16 = 15;
pub(super) const FRA_FWMASK: u16 = 16;
const FRA_PADDING: u16 = 18;
const FRA_PROTOCOL: u16 = 21;
/// Suppresses nothing.
const NOTHING: u32 = u32::MAX;
/// Priority of the rule that leads to the main table. One that comes later counts only for packets without any route.
const MAIN: u32 = 32766;

/// One policy rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PolicyRule {
    pub(super) family: u8,
    pub(super) priority: u32,
    pub(super) table: u32,
    pub(super) mark: u32,
    pub(super) mask: u32,
    /// True if mark and mask are all that it asks for, and a table is where it leads.
    pub(super) plain: bool,
}

impl PolicyRule {
    /// Reads the body of its message. What it holds and we do not know makes it another rule than ours.
    pub(super) fn read(body: &[u8]) -> Result<Self, Malformed> {
        let (header, rest) = body.split_at_checked(HEADER).ok_or(Malformed)?;
        let [family, to, from, tos, table, _, _, action, f0, f1, f2, f3] = fixed(Some(header))?;
        let inverted = u32::from_ne_bytes([f0, f1, f2, f3]) & INVERTED != 0;
        let mut rule = Self {
            family,
            priority: 0,
            table: table.into(),
            mark: 0,
            mask: 0,
            plain: (to, from, tos, action) == (0, 0, 0, LOOK_UP) && !inverted,
        };
        for attribute in attributes(rest) {
            let (kind, payload) = attribute?;
            let number = || fixed(Some(payload)).map(u32::from_ne_bytes);
            match kind {
                FRA_PRIORITY => rule.priority = number()?,
                FRA_FWMARK => rule.mark = number()?,
                FRA_FWMASK => rule.mask = number()?,
                FRA_TABLE => rule.table = number()?,
                FRA_SUPPRESS_GROUP | FRA_SUPPRESS_PREFIX => rule.plain &= number()? == NOTHING,
                FRA_FLOW | FRA_PADDING | FRA_PROTOCOL => {}
                _ => rule.plain = false,
            }
        }
        Ok(rule)
    }

    /// True if it sends everything with this mark, and nothing else, to this table.
    pub(super) fn sends(&self, family: u8, mark: u32, table: u32) -> bool {
        self.plain
            && self.priority < MAIN
            && (self.family, self.mark, self.mask, self.table) == (family, mark, u32::MAX, table)
    }
}

/// Where a new rule of a family goes: before all others but the one that leads to the local table, as where `ip rule` puts it.
pub(super) fn free_priority(rules: &[PolicyRule], family: u8) -> u32 {
    let of_family = rules.iter().filter(|rule| rule.family == family);
    let first = of_family.map(|rule| rule.priority).filter(|priority| *priority > 0).min();
    first.map_or(MAIN, |first| first.min(MAIN)).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: u8 = 2;

    fn rule(priority: u32, mark: u32, mask: u32, table: u32) -> PolicyRule {
        PolicyRule { family: V4, priority, table, mark, mask, plain: true }
    }

    fn fresh() -> Vec<PolicyRule> {
        vec![rule(0, 0, 0, 255), rule(32766, 0, 0, 254), rule(32767, 0, 0, 253)]
    }

    /// A rule's message: to table 133, with these attributes.
    fn body(to: u8, flags: u8, rest: &[(u16, u32)]) -> Vec<u8> {
        let mut body = vec![V4, to, 0, 0, 133, 0, 0, LOOK_UP, flags, 0, 0, 0];
        for (kind, number) in rest {
            body.extend([8_u16.to_ne_bytes(), kind.to_ne_bytes()].concat());
            body.extend(number.to_ne_bytes());
        }
        body
    }

    #[test]
    fn a_rule_of_ours_is_known_and_one_that_only_looks_like_it_is_not() {
        let ours = [(FRA_FWMARK, 1337), (FRA_FWMASK, u32::MAX), (FRA_PRIORITY, 100), (FRA_TABLE, 133)];
        let sends = |body: &[u8]| PolicyRule::read(body).map(|rule| rule.sends(V4, 1337, 133));
        assert_eq!(sends(&body(0, 0, &ours)), Ok(true));
        assert_eq!(sends(&body(8, 0, &ours)), Ok(false), "for some destinations");
        assert_eq!(sends(&body(0, 2, &ours)), Ok(false), "for all others");
        let interface = [&ours[..], &[(3, 0x6f6c)]].concat();
        assert_eq!(sends(&body(0, 0, &interface)), Ok(false), "for an interface");
        let suppressing = [&ours[..], &[(FRA_SUPPRESS_PREFIX, 0)]].concat();
        assert_eq!(sends(&body(0, 0, &suppressing)), Ok(false), "without default routes");
        let harmless = [&ours[..], &[(FRA_SUPPRESS_PREFIX, NOTHING)]].concat();
        assert_eq!(sends(&body(0, 0, &harmless)), Ok(true));
        assert_eq!(sends(&[2, 0, 0]), Err(Malformed));
    }

    #[test]
    fn another_mark_mask_table_or_place_is_not_ours() {
        for (what, other) in [
            ("mark", rule(100, 1338, u32::MAX, 133)),
            ("mask", rule(100, 1337, 0xff, 133)),
            ("table", rule(100, 1337, u32::MAX, 134)),
            ("after the main table", rule(40000, 1337, u32::MAX, 133)),
            ("family", PolicyRule { family: 10, ..rule(100, 1337, u32::MAX, 133) }),
        ] {
            assert!(!other.sends(V4, 1337, 133), "{what}");
        }
    }

    #[test]
    fn a_new_rule_comes_before_all_others() {
        assert_eq!(free_priority(&fresh(), V4), 32765);
        let mut rules = fresh();
        rules.push(rule(100, 7, 7, 7));
        assert_eq!(free_priority(&rules, V4), 99);
        assert_eq!(free_priority(&rules, 10), 32765, "another family");
        let mut rules = fresh();
        rules.remove(1);
        assert_eq!(free_priority(&rules, V4), 32765, "never behind where the main table usually is");
    }
}
