// SPDX-License-Identifier: Apache-2.0
//! The moments of a watched configuration directory, as a container runtime sees them that reads at each event. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use cluster::conflist::{List, is_configuration};
use cluster::hand::{Change, Event, Found};

use crate::stop::{Step, Stop};

/// What a runtime finds under a name.
type Readable = Result<(), String>;

/// Demand on the lab's own reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// A content that was replaced before it was read makes the scenario inconclusive.
    EveryMoment,
    /// A runtime that is as fast as the lab would not have read it either.
    WheneverRead,
}

/// Fails if there was a moment without a network: the first configuration in order of name has a name and plugins, each with a type that is in the
/// directory of plugins. Two files that exchange their names are two moves, but at no moment one of them lacks.
pub fn judge(before: &BTreeMap<String, Found>, changes: &[Change], demand: Demand) -> Step {
    let mut there: BTreeMap<&str, Readable> =
        before.iter().map(|(name, found)| (name.as_str(), readable(name, found))).collect();
    has_network(&there, "the watch began")?;
    let mut late = Vec::new();
    for (at, change) in changes.iter().enumerate() {
        let name = change.name.as_deref().unwrap_or_default();
        match change.event {
            Event::Went if ends_exchange(changes, at) => continue,
            Event::Lost => return Err(Stop::harness("the kernel lost changes of the directory")),
            Event::Gone => return Err(Stop::wrong("the directory itself was gone")),
            _ if !is_configuration(Path::new(name)) => continue,
            Event::Written => {
                let why = format!("{name} was written in place: a runtime may have read a part of it");
                return Err(Stop::wrong(why));
            }
            Event::Attributes => continue,
            Event::Went | Event::Removed => drop(there.remove(name)),
            Event::Came | Event::Created => {
                let found = change.found.as_ref();
                let found = found.ok_or_else(|| Stop::harness(format!("nobody read {name} as it came")))?;
                late.extend(found.late.then_some(name));
                // What is gone by now says nothing: its removal follows.
                if found.content.is_some() || !found.late {
                    there.insert(name, readable(name, found));
                }
            }
        }
        has_network(&there, &format!("{name} {}", done(change.event)))?;
    }
    match (late.first(), demand) {
        (Some(name), Demand::EveryMoment) => Err(Stop::harness(format!(
            "{name} was replaced before the lab had read it ({} of {} changes): run it again on a machine with more idle time",
            late.len(),
            changes.len()
        ))),
        _ => Ok(()),
    }
}

fn done(event: Event) -> &'static str {
    match event {
        Event::Went | Event::Removed => "was gone",
        _ => "had come",
    }
}

/// The network of the directory, as containerd and CRI-O find it: by the first file.
fn has_network(there: &BTreeMap<&str, Readable>, when: &str) -> Step {
    match there.iter().next() {
        None => Err(Stop::wrong(format!("once {when} there was no configuration at all"))),
        Some((_, Ok(()))) => Ok(()),
        Some((name, Err(why))) => {
            Err(Stop::wrong(format!("once {when} the first configuration was no network: {name}: {why}")))
        }
    }
}

/// Content that a runtime can use.
fn readable(name: &str, found: &Found) -> Readable {
    let content = found.content.as_ref().ok_or("it cannot be read")?;
    let list = List::of_file(Path::new(name), &content.0)?;
    match list.missing(|plugin| found.plugins.iter().any(|there| there == plugin)) {
        Some(missing) => Err(format!("there is no plugin {missing:?}")),
        None => Ok(()),
    }
}

/// True if the name at `at` went to where the file came from that has the name now.
fn ends_exchange(changes: &[Change], at: usize) -> bool {
    let Some([went, came, back, to]) = at.checked_sub(2).and_then(|first| changes.get(first..at + 2)) else {
        return false;
    };
    let events = [went.event, came.event, back.event, to.event];
    events == [Event::Went, Event::Came, Event::Went, Event::Came]
        && (&went.name, &came.name) == (&to.name, &back.name)
}

#[cfg(test)]
mod tests {
    use cluster::hand::Bytes;

    use super::*;

    const WHOLE: &str = r#"{"name":"lab","plugins":[{"type":"x"}]}"#;
    const EMPTY: &str = r#"{"name":"lab","plugins":[]}"#;
    const LIST: &str = "10-lab.conflist";

    fn found(text: &str) -> Found {
        Found { content: Some(Bytes(text.into())), late: false, plugins: vec!["x".to_owned()] }
    }

    fn change(event: Event, name: &str) -> Change {
        Change { name: Some(name.to_owned()), event, found: None }
    }

    fn came(name: &str, text: &str) -> Change {
        Change { found: Some(found(text)), ..change(Event::Came, name) }
    }

    /// The files `name` and `aside` exchange their contents: `text` is under the name from then on.
    fn exchanged(name: &str, aside: &str, text: &str) -> Vec<Change> {
        let (out, back) = (change(Event::Went, aside), change(Event::Went, name));
        vec![out, came(name, text), back, change(Event::Came, aside)]
    }

    fn judged(changes: &[Change]) -> Step {
        judge(&BTreeMap::from([(LIST.to_owned(), found(WHOLE))]), changes, Demand::EveryMoment)
    }

    fn is_wrong(changes: &[Change], why: &str) {
        let judged = judged(changes);
        assert!(matches!(&judged, Err(Stop::Wrong(text)) if text.contains(why)), "{judged:?}");
    }

    #[test]
    fn a_list_without_plugins_is_no_network_however_short_it_is_there() {
        let mut changes = exchanged(LIST, ".new", EMPTY);
        changes.extend(exchanged(LIST, ".new", WHOLE));
        is_wrong(&changes, "no plugins");
        assert!(judged(&exchanged(LIST, ".new", WHOLE)).is_ok());
    }

    #[test]
    fn torn_foreign_and_missing_contents_are_no_network() {
        for (text, why) in [
            ("", "EOF"),
            (r#"{"name":"lab","#, "EOF"),
            (r#"{"plugins":[{"type":"x"}]}"#, "no name"),
            (r#"{"name":"lab","plugins":[{"type":"y"}]}"#, "no plugin \"y\""),
        ] {
            is_wrong(&[came(LIST, text)], why);
            is_wrong(&[came("00-first.conflist", text), change(Event::Removed, "00-first.conflist")], why);
        }
        // Later in order, or no configuration at all.
        assert!(judged(&[came("20-b.conflist", ""), came("00-note.txt", "")]).is_ok());
        is_wrong(&[change(Event::Removed, LIST), came(LIST, WHOLE)], "no configuration at all");
        is_wrong(&[change(Event::Written, LIST)], "in place");
        is_wrong(&[change(Event::Gone, "")], "directory itself");
        is_wrong(&[Change { found: Some(found("")), ..change(Event::Created, LIST) }], "EOF");
    }

    #[test]
    fn a_directory_without_a_network_at_first_is_wrong() {
        let judged = judge(&BTreeMap::new(), &[], Demand::WheneverRead);
        assert!(matches!(judged, Err(Stop::Wrong(_))), "{judged:?}");
    }

    #[test]
    fn a_moment_that_nobody_read_is_inconclusive_unless_only_readers_count() {
        let late = Found { late: true, ..found(WHOLE) };
        let changes = [Change { found: Some(late), ..change(Event::Came, LIST) }, came(LIST, WHOLE)];
        let before = BTreeMap::from([(LIST.to_owned(), found(WHOLE))]);
        assert!(matches!(judge(&before, &changes, Demand::EveryMoment), Err(Stop::Harness(_))));
        assert!(judge(&before, &changes, Demand::WheneverRead).is_ok());
        let unread = [Change { name: Some(LIST.to_owned()), event: Event::Came, found: None }];
        assert!(matches!(judge(&before, &unread, Demand::WheneverRead), Err(Stop::Harness(_))));
    }
}
