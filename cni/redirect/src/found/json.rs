// SPDX-License-Identifier: Apache-2.0
//! Reads `nft -j list ruleset` (libnftables-json(5), schema version 1): tables of families `ip`, `ip6` and `inet`.
//!
//! Rules of the iptables tools appear there with their extensions' names only (`xt`), so they cannot be judged from this listing;
//! `iptables-save` shows them whole.

mod rule;

use serde_json::Value;

use crate::ruleset::Family;

use super::{ChainKind, Entry, FoundFamily, FoundHook, FoundRules, Policy};

/// A listing that is none.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// It is not JSON.
    #[error("the text is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It has no list of objects.
    #[error("the text has no list \"nftables\": it is not what nft -j prints")]
    NotNft,
    /// An object lacks something.
    #[error("object {index} ({kind}) has no usable {field}")]
    Field {
        /// Its 0-based position.
        index: usize,
        /// Its kind.
        kind: &'static str,
        /// Missing or malformed field.
        field: &'static str,
    },
}

/// Reads a listing.
///
/// # Errors
/// It is not JSON, or not a listing.
pub fn parse(text: &str) -> Result<FoundRules, JsonError> {
    let listing: Value = serde_json::from_str(text)?;
    let objects = listing.get("nftables").and_then(Value::as_array).ok_or(JsonError::NotNft)?;
    let mut rules = FoundRules::default();
    for (index, object) in objects.iter().enumerate() {
        for (kind, add) in READERS {
            let Some(fields) = object.get(kind).map(Fields) else { continue };
            let family = fields.family().map_err(|field| JsonError::Field { index, kind, field })?;
            let Some(family) = family else { continue };
            add(&mut rules, family, &fields).map_err(|field| JsonError::Field { index, kind, field })?;
        }
    }
    Ok(rules)
}

/// The fields of one object.
struct Fields<'a>(&'a Value);

impl<'a> Fields<'a> {
    fn text(&self, name: &'static str) -> Result<&'a str, &'static str> {
        self.0.get(name).and_then(Value::as_str).ok_or(name)
    }

    /// The family; none for families that no packet of ours meets (`arp`, `bridge`, `netdev`).
    fn family(&self) -> Result<Option<FoundFamily>, &'static str> {
        Ok(match self.text("family")? {
            "ip" => Some(FoundFamily::One(Family::V4)),
            "ip6" => Some(FoundFamily::One(Family::V6)),
            "inet" => Some(FoundFamily::Inet),
            _ => None,
        })
    }
}

/// Adds an object to what was read, or names the field that it lacks.
type Reader = fn(&mut FoundRules, FoundFamily, &Fields<'_>) -> Result<(), &'static str>;

/// The objects that count, and who reads them.
const READERS: [(&str, Reader); 3] = [("table", table), ("chain", chain), ("rule", rule)];

fn table(rules: &mut FoundRules, family: FoundFamily, fields: &Fields<'_>) -> Result<(), &'static str> {
    rules.table(family, fields.text("name")?);
    Ok(())
}

fn chain(rules: &mut FoundRules, family: FoundFamily, fields: &Fields<'_>) -> Result<(), &'static str> {
    let entry = entry(fields)?;
    rules.table(family, fields.text("table")?).chain(fields.text("name")?).entry = entry;
    Ok(())
}

fn entry(fields: &Fields<'_>) -> Result<Option<Entry>, &'static str> {
    let Ok(hook) = fields.text("hook") else { return Ok(None) };
    let Some(hook) = FoundHook::from_name(hook) else { return Ok(None) };
    let priority = fields.0.get("prio").and_then(Value::as_i64);
    let priority = priority.and_then(|priority| priority.try_into().ok()).ok_or("prio")?;
    let kind = if fields.text("type")? == "nat" { ChainKind::First } else { ChainKind::Every };
    let policy = if fields.text("policy") == Ok("drop") { Policy::Drop } else { Policy::Accept };
    Ok(Some(Entry { hook, priority, kind, policy }))
}

fn rule(rules: &mut FoundRules, family: FoundFamily, fields: &Fields<'_>) -> Result<(), &'static str> {
    let statements = fields.0.get("expr").and_then(Value::as_array).ok_or("expr")?;
    let chain = rules.table(family, fields.text("table")?).chain(fields.text("chain")?);
    chain.rules.push(rule::read(statements));
    Ok(())
}

#[cfg(test)]
mod tests;
