// SPDX-License-Identifier: Apache-2.0
//! Our entry in and out of a list by cutting and pasting text: order of keys, unknown keys, forms of numbers and indentation stay as
//! somebody wrote them.

use serde_json::Value;

use super::NEWEST;
use super::document::{Document, Invalid, List, Members, Plugin, place};

/// Network of a `.conf` that names none.
const UNNAMED: &str = "k8s-pod-network";

/// White space of a list, to be kept.
struct Layout<'a> {
    /// Before the first plugin.
    first: &'a str,
    /// Before each further one, its comma included.
    further: String,
    /// Between the last one and the closing bracket.
    last: &'a str,
}

impl<'a> Layout<'a> {
    fn of(list: &List<'a>) -> Self {
        let inside = list.at.start + 1..list.at.end - 1;
        let (Some(first), Some(last)) = (list.plugins.first(), list.plugins.last()) else {
            return Self { first: "", further: ",".to_owned(), last: "" };
        };
        let before = list.text.get(inside.start..first.at.start).unwrap_or_default();
        let further = match list.plugins.as_slice() {
            [one, two, ..] => list.text.get(one.at.end..two.at.start).unwrap_or(",").to_owned(),
            _ if before.is_empty() && list.text.contains("\": ") => ", ".to_owned(),
            _ => format!(",{before}"),
        };
        Self { first: before, further, last: list.text.get(last.at.end..inside.end).unwrap_or_default() }
    }
}

/// The list without our entries, and with `entry` (if any) as its last one.
#[must_use]
pub fn with_entry(list: &List<'_>, entry: Option<&Value>) -> String {
    let layout = Layout::of(list);
    let mut array = layout.first.to_owned();
    let mut end = None;
    for (index, plugin) in list.plugins.iter().enumerate().filter(|(_, plugin)| !plugin.is_ours()) {
        let is_next = index > 0 && end == list.plugins.get(index - 1).map(|before| before.at.end);
        array += match end {
            None => "",
            Some(end) if is_next => list.text.get(end..plugin.at.start).unwrap_or(&layout.further),
            Some(_) => &layout.further,
        };
        array += plugin.text;
        end = Some(plugin.at.end);
    }
    if let Some(entry) = entry {
        array += if end.is_some() { &layout.further } else { "" };
        array += &formatted(entry, layout.first, list.text);
    }
    let (before, after) = (list.text.get(..=list.at.start), list.text.get(list.at.end - 1..));
    format!("{}{array}{}{}", before.unwrap_or_default(), layout.last, after.unwrap_or_default())
}

/// A configuration without our entries, those in lists that Multus has inline included; `None` if there are none, or nothing else.
#[must_use]
pub fn without_entries(text: &str) -> Option<String> {
    let document = Document::parse(text).ok()?;
    if document.others().is_empty() {
        return None;
    }
    let mut left = text.to_owned();
    // From the end, so that the places of those before it stay.
    for inline in document.inline().into_iter().rev() {
        if let Some(without) = without_entries(inline) {
            left.replace_range(place(text, inline), &without);
        }
    }
    if let Ok(Document::List(list)) = Document::parse(&left)
        && list.plugins.iter().any(Plugin::is_ours)
    {
        left = lowered(&list).unwrap_or(left);
    }
    if let Ok(Document::List(list)) = Document::parse(&left)
        && list.plugins.iter().any(Plugin::is_ours)
    {
        left = with_entry(&list, None);
    }
    (left != text).then_some(left)
}

/// `cniVersion` of every list that upstream makes of a `.conf`.
const UPSTREAMS: &str = "0.3.1";

/// True for a list of the form that [`upgraded`] gives one, or upstream's agent: a foreign one has other keys, other plugins, or no name in its plugin.
#[must_use]
pub fn is_upgraded(list: &List<'_>) -> bool {
    let only = ["name", "cniVersion", "plugins"];
    let mut others = list.plugins.iter().filter(|one| !one.is_ours());
    let (Some(single), None) = (others.next(), others.next()) else { return false };
    let named = Members::parse(single.text).ok().and_then(|members| members.text("name"));
    let name = list.members.text("name");
    let is_upstreams = || list.members.text("cniVersion").as_deref() == Some(UPSTREAMS);
    let unnamed = || name.as_deref() == Some(UNNAMED) && (named.is_none() || is_upstreams());
    list.members.0.iter().all(|(key, _)| only.contains(&key.as_str())) && (named == name || unnamed())
}

/// True if our entry is in the list as it should be: once, last, and equal.
#[must_use]
pub fn has_entry(list: &List<'_>, entry: &Value) -> bool {
    list.plugins.iter().filter(|plugin| plugin.is_ours()).count() == 1
        && list
            .plugins
            .last()
            .is_some_and(|last| serde_json::from_str::<Value>(last.text).is_ok_and(|is| is == *entry))
}

/// Key of our entry: the `cniVersion` that the list's owner wrote, while ours is there. The plugin passes over it, ours and upstream's.
pub const OWNERS_VERSION: &str = "millrace_owner_cni_version";

/// The owner's version of a list, if it is older than the newest.
#[must_use]
pub fn to_be_raised(list: &List<'_>) -> Option<String> {
    let version = list.members.text("cniVersion")?;
    // Written as it would be restored.
    let is_plain = list.members.get("cniVersion") == Some(Value::from(version.as_str()).to_string().as_str());
    (is_plain && numbers(&version)? < numbers(NEWEST)?).then_some(version)
}

/// The list with the newest version.
#[must_use]
pub fn raised(list: &List<'_>) -> Option<String> {
    with_version(list, NEWEST)
}

/// The list with its owner's version, if an agent raised it. An older one than the newest is what its owner has written since.
#[must_use]
pub fn lowered(list: &List<'_>) -> Option<String> {
    let mut ours = list.plugins.iter().filter(|plugin| plugin.is_ours());
    let owners = ours.find_map(|entry| Members::parse(entry.text).ok()?.text(OWNERS_VERSION))?;
    let is = numbers(&list.members.text("cniVersion")?)?;
    let is_raised = is >= numbers(NEWEST)? && numbers(&owners)? < is;
    if is_raised { with_version(list, &owners) } else { None }
}

fn with_version(list: &List<'_>, version: &str) -> Option<String> {
    let at = place(list.text, list.members.get("cniVersion")?);
    Some([&list.text[..at.start], &Value::from(version).to_string(), &list.text[at.end..]].concat())
}

fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(str::parse).collect::<Result<_, _>>().ok()
}

/// A list made of a configuration of one plugin: its own name and version, the plugin without its version (which belongs to the list), and
/// our entry.
///
/// # Errors
/// Its name or version is neither text nor null, which is as none: no runtime would take the list.
pub fn upgraded(single: &Members<'_>, entry: &Value) -> Result<String, Invalid> {
    single.check()?;
    let said = |key| single.get(key).filter(|value| *value != "null");
    // As upstream names every list that it makes. Without any name no runtime takes a list.
    let unnamed = Value::from(UNNAMED).to_string();
    let name = said("name").unwrap_or(&unnamed);
    let version = said("cniVersion").map(|version| format!("  \"cniVersion\": {version},\n"));
    let version = version.unwrap_or_default();
    let kept = single.0.iter().filter(|(key, _)| key != "cniVersion");
    let members: Vec<String> =
        kept.map(|(key, value)| format!("      {}: {}", Value::from(key.as_str()), value.get())).collect();
    let plugin = format!("{{\n{}\n    }}", members.join(",\n"));
    let entry = formatted(entry, "\n    ", "");
    Ok(format!("{{\n{version}  \"name\": {name},\n  \"plugins\": [\n    {plugin},\n    {entry}\n  ]\n}}\n"))
}

/// An entry in the manner of what is around it: on one line, or with the indentation that `before` ends with.
fn formatted(entry: &Value, before: &str, around: &str) -> String {
    let Some((_, indent)) = before.rsplit_once('\n') else { return on_one_line(entry, around) };
    let line_end = if before.contains("\r\n") { "\r\n" } else { "\n" };
    // A plugin is two levels deep.
    let (half, _) = indent.split_at(indent.len() / 2);
    let unit = if half.is_empty() { "  " } else { half };
    let pretty = format!("{entry:#}");
    let mut lines = pretty.lines().map(|line| {
        let text = line.trim_start_matches(' ');
        format!("{}{text}", unit.repeat((line.len() - text.len()) / 2))
    });
    let first = lines.next().unwrap_or_default();
    lines.fold(first, |text, line| text + line_end + indent + &line)
}

/// Compact, or with blanks where the file has them.
fn on_one_line(entry: &Value, around: &str) -> String {
    if !around.contains("\": ") {
        return entry.to_string();
    }
    let members = entry
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{}: {value}", Value::from(key.as_str())));
    format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
}
