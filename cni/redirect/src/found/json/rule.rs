// SPDX-License-Identifier: Apache-2.0
//! One rule: statements to conditions and actions.

use std::borrow::Cow;
use std::net::IpAddr;

use serde_json::Value;

use crate::found::native::family;
use crate::found::{Action, Condition, FoundRule};
use crate::ruleset::{Cidr, CtStates, Dialect, Id, Match, Owner, Port, Protocol, Sense};

/// Reads the statements of a rule. Nothing here is an error: what cannot be read cannot be judged.
pub(super) fn read(statements: &[Value]) -> FoundRule {
    let mut rule = FoundRule {
        conditions: Vec::new(),
        actions: Vec::new(),
        dialect: Dialect::Nft,
        text: String::new(),
        packets: None,
        handle: None,
    };
    let mut words = Vec::new();
    for statement in statements {
        let Some((name, body)) = statement.as_object().and_then(|object| object.iter().next()) else {
            rule.conditions.push(Condition::Unknown(statement.to_string()));
            continue;
        };
        match name.as_str() {
            // Statements run in order: a condition behind an action does not keep that from what it does.
            "match" if rule.actions.iter().any(|action| *action != Action::Nothing) => {
                rule.actions.push(Action::Unknown(spell(body)));
                words.push(spell(body));
            }
            "match" => {
                let conditions = condition(body);
                rule.conditions.extend(conditions.unwrap_or_else(|| unknown(body)));
                words.push(spell(body));
            }
            "counter" => rule.packets = body.get("packets").and_then(Value::as_u64),
            "xt" => {
                let text = format!("xt {} {}", plain(body.get("type")), plain(body.get("name")));
                if body.get("type").and_then(Value::as_str) == Some("target") {
                    rule.actions.push(Action::Unknown(text.clone()));
                } else if body.get("name").and_then(Value::as_str) != Some("comment") {
                    rule.conditions.push(Condition::Unknown(text.clone()));
                }
                words.push(text);
            }
            _ => {
                rule.actions
                    .push(action(name, body).unwrap_or_else(|| Action::Unknown(statement.to_string())));
                words.push(format!("{name} {}", plain(Some(body))).trim_end().to_owned());
            }
        }
    }
    rule.text = words.join(" ");
    rule
}

/// A field of a header asks for its protocol, whatever the field is.
fn unknown(body: &Value) -> Vec<Condition> {
    let header = body.pointer("/left/payload/protocol").and_then(Value::as_str);
    let protocol = header.filter(|name| ["tcp", "udp"].contains(name)).and_then(Protocol::from_name);
    let known = protocol.map(|protocol| Condition::Known(Match::Protocol(protocol)));
    known.into_iter().chain([Condition::Unknown(spell(body))]).collect()
}

/// A condition in few words: left side, operation, right side.
fn spell(body: &Value) -> String {
    let left = body.get("left").map_or_else(String::new, |left| match left.as_object() {
        Some(object) => object
            .iter()
            .map(|(kind, inner)| {
                let names = ["protocol", "key", "field"];
                let names: Vec<_> = names.iter().filter_map(|name| inner.get(name)?.as_str()).collect();
                if kind == "payload" { names.join(" ") } else { format!("{kind} {}", names.join(" ")) }
            })
            .collect::<Vec<_>>()
            .join(" "),
        None => left.to_string(),
    });
    let operation = match body.get("op").and_then(Value::as_str) {
        Some("!=") => "!= ",
        Some("==" | "in") | None => "",
        Some(other) => return format!("{left} {other} {}", plain(body.get("right"))),
    };
    format!("{left} {operation}{}", plain(body.get("right")))
}

fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The conditions of a match, all of which must hold; none if it cannot be judged.
fn condition(body: &Value) -> Option<Vec<Condition>> {
    let (left, right) = (body.get("left")?, body.get("right")?);
    let sense = match body.get("op")?.as_str()? {
        "==" | "in" => Sense::Is,
        "!=" => Sense::Not,
        // None of these bits, which of a state means what a set's `!=` does.
        "!" if left.get("ct")?.get("key")? == "state" => {
            let states = states(Sense::Is, right)?.inverted();
            return Some(vec![Condition::Known(Match::Conntrack(states))]);
        }
        _ => return None,
    };
    let conditions = if let Some(meta) = left.get("meta") {
        vec![meta_match(meta.get("key")?.as_str()?, sense, right)?]
    } else if let Some(ct) = left.get("ct") {
        vec![ct_match(ct.get("key")?.as_str()?, sense, right)?]
    } else {
        let payload = left.get("payload")?;
        payload_match(payload.get("protocol")?.as_str()?, payload.get("field")?.as_str()?, sense, right)?
    };
    Some(conditions.into_iter().map(Condition::Known).collect())
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64()?.try_into().ok()
}

fn meta_match(key: &str, sense: Sense, right: &Value) -> Option<Match> {
    // A set, by name.
    if right.as_str().is_some_and(|name| name.starts_with('@')) {
        return None;
    }
    let name = || {
        let name = right.as_str().filter(|_| sense == Sense::Is)?;
        Some(Cow::Owned(name.to_owned()))
    };
    // nft shows a name where the user database has one for the number.
    let id = || match right {
        Value::String(name) => Some(Id::Name(name.clone())),
        _ => number(right).map(Id::Number),
    };
    Some(match key {
        "iifname" => Match::InInterface(name()?),
        "oifname" => Match::OutInterface(name()?),
        "l4proto" if sense == Sense::Is => Match::Protocol(protocol(right)?),
        "skuid" => Match::Owner(sense, Owner::Uid(id()?)),
        "skgid" => Match::Owner(sense, Owner::Gid(id()?)),
        "mark" => Match::Mark(sense, number(right)?),
        "nfproto" if sense == Sense::Is => Match::Family(family(right.as_str()?)?),
        _ => return None,
    })
}

/// nft shows a number where it has no name.
fn protocol(value: &Value) -> Option<Protocol> {
    match value {
        Value::String(name) => Protocol::from_name(name),
        other => Some(Protocol::from_number(other.as_u64()?.try_into().ok()?)),
    }
}

fn ct_match(key: &str, sense: Sense, right: &Value) -> Option<Match> {
    match key {
        "mark" if sense == Sense::Is => Some(Match::ConnMark(number(right)?)),
        "state" => states(sense, right).map(Match::Conntrack),
        _ => None,
    }
}

fn states(sense: Sense, right: &Value) -> Option<CtStates> {
    let set = right.get("set");
    let names: Vec<&str> = match set.unwrap_or(right) {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().map(Value::as_str).collect::<Option<_>>()?,
        _ => return None,
    };
    let states = CtStates::from_names(&names.join(","))?;
    match sense {
        Sense::Is => Some(states),
        // `!=` compares all bits: with more than one state it holds of every packet.
        Sense::Not => (set.is_some() || names.len() == 1).then(|| states.inverted()),
    }
}

/// nft leaves out the protocol where the port says it (`tcp dport 53`): it is a condition all the same.
fn payload_match(header: &str, field: &str, sense: Sense, right: &Value) -> Option<Vec<Match>> {
    match (header, field) {
        ("ip" | "ip6", "saddr") => Some(vec![Match::Source(sense, cidr(right)?)]),
        ("ip" | "ip6", "daddr") => Some(vec![Match::Destination(sense, cidr(right)?)]),
        ("tcp" | "udp", "sport" | "dport") => {
            let port = match (field, ports(right)?) {
                ("sport", Ports::One(port)) => Match::SourcePort(sense, port),
                ("sport", Ports::Set(_)) => return None,
                (_, Ports::One(port)) => Match::DestinationPort(sense, port),
                (_, Ports::Set(ports)) => Match::DestinationPorts(sense, ports),
            };
            Some(vec![Match::Protocol(Protocol::from_name(header)?), port])
        }
        _ => None,
    }
}

fn cidr(value: &Value) -> Option<Cidr> {
    let (address, length) = match value.get("prefix") {
        Some(prefix) => (prefix.get("addr")?.as_str()?, Some(prefix.get("len")?.as_u64()?)),
        None => (value.as_str()?, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Some(bits), |length| u8::try_from(length).ok())?;
    (length <= bits).then_some(Cidr { address, length })
}

enum Ports {
    One(Port),
    Set(Vec<u16>),
}

fn ports(value: &Value) -> Option<Ports> {
    let one = |value: &Value| u16::try_from(value.as_u64()?).ok();
    if let Some(set) = value.get("set") {
        let ports = set.as_array()?.iter().map(one).collect::<Option<_>>()?;
        return Some(Ports::Set(ports));
    }
    if let Some(range) = value.get("range") {
        let [low, high] = range.as_array()?.as_slice() else { return None };
        return Some(Ports::One(Port::Range(one(low)?, one(high)?)));
    }
    Some(Ports::One(Port::One(one(value)?)))
}

fn action(name: &str, body: &Value) -> Option<Action> {
    let chain = || Some(body.get("target")?.as_str()?.to_owned());
    let port = || u16::try_from(body.get("port")?.as_u64()?).ok();
    match name {
        "accept" => Some(Action::Accept),
        "drop" => Some(Action::Drop),
        "return" => Some(Action::Return),
        "jump" => chain().map(Action::Jump),
        "goto" => chain().map(Action::Goto),
        "log" => Some(Action::Nothing),
        "redirect" => port().map(Action::Redirect),
        "tproxy" if body.get("addr").is_none() => port().map(Action::Tproxy),
        "mangle" => mangle(body),
        _ => None,
    }
}

/// Reads a `mangle`, which sets a packet or ct key.
fn mangle(body: &Value) -> Option<Action> {
    let (key, value) = (body.get("key")?, body.get("value")?);
    let name = |value: &Value, kind: &str| Some(value.get(kind)?.get("key")?.as_str()?.to_owned());
    let is = |value: &Value, kind: &str, wanted: &str| name(value, kind).as_deref() == Some(wanted);
    if is(key, "meta", "mark") {
        return match number(value) {
            Some(mark) => Some(Action::SetMark(mark)),
            None => is(value, "ct", "mark").then_some(Action::RestoreMark),
        };
    }
    if is(key, "ct", "mark") {
        return is(value, "meta", "mark").then_some(Action::SaveMark);
    }
    (is(key, "ct", "zone")).then(|| number(value)?.try_into().ok().map(Action::CtZone))?
}
