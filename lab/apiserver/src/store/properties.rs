// SPDX-License-Identifier: Apache-2.0
//! Properties of any sequence of writes.

use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Action, Collection, DeleteOptions, Key, Part, Store};
use crate::ids::Ids;
use crate::kinds::Kind;
use crate::selector::Selector;

#[derive(Debug, Clone)]
enum Write {
    Create(u8, u8),
    Label(u8, u8),
    Status(u8),
    Delete(u8, u32),
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let write = prop_oneof![
        (0..4_u8, 0..3_u8).prop_map(|(name, label)| Write::Create(name, label)),
        (0..4_u8, 0..3_u8).prop_map(|(name, label)| Write::Label(name, label)),
        (0..4_u8).prop_map(Write::Status),
        (0..4_u8, 0..2_u32).prop_map(|(name, grace)| Write::Delete(name, grace)),
    ];
    prop::collection::vec(write, 0..40)
}

fn pods() -> Collection {
    Collection { kind: Kind::find("", "v1", "pods").unwrap(), namespace: Some("shop".into()) }
}

fn store(window: usize) -> Store {
    let mut store = Store::new(window, Ids::new(1), |_, _, _| Ok(()), String::new());
    let into = Collection { kind: Kind::find("", "v1", "namespaces").unwrap(), namespace: None };
    store.create(&into, json!({"metadata": {"name": "shop"}}), Timestamp::UNIX_EPOCH).unwrap();
    store
}

/// Refusals (a name that is taken, an object that is gone) are part of the game.
fn write(store: &mut Store, write: &Write) {
    let now = Timestamp::UNIX_EPOCH;
    let change = |store: &mut Store, name: u8, part: Part, edit: &dyn Fn(&mut Value)| {
        let key = pods().key(&name.to_string());
        if let Ok(old) = store.get(&key) {
            let mut object = (*old).clone();
            edit(&mut object);
            store.update(&key, object, part).unwrap();
        }
    };
    match *write {
        Write::Create(name, label) => {
            let metadata = json!({"name": name.to_string(), "labels": {"l": label.to_string()}});
            let _taken = store.create(&pods(), json!({"metadata": metadata, "spec": {"nodeName": "n"}}), now);
        }
        Write::Label(name, label) => change(store, name, Part::Main, &|pod| {
            pod["metadata"]["labels"]["l"] = json!(label.to_string());
        }),
        Write::Status(name) => {
            change(store, name, Part::Status, &|pod| pod["status"]["phase"] = json!("Running"))
        }
        Write::Delete(name, grace) => {
            let options = DeleteOptions { grace: Some(grace), ..DeleteOptions::default() };
            let _gone = store.delete(&pods().key(&name.to_string()), &options, now);
        }
    }
}

fn listed(store: &Store, selector: &Selector) -> Vec<(Key, Value)> {
    store.list(&pods(), selector).map(|(key, object)| (key.clone(), (**object).clone())).collect()
}

proptest! {
    /// Contract of an informer: a list and the events after it give the next list.
    #[test]
    fn a_list_and_the_events_after_it_are_the_next_list(before in writes(), after in writes(), label in 0..3_u8) {
        let selector = Selector::parse(pods().kind, Some(&format!("l={label}")), None).unwrap();
        let mut store = store(1000);
        before.iter().for_each(|one| write(&mut store, one));
        let from = store.revision();
        let mut known: std::collections::BTreeMap<Key, Value> = listed(&store, &selector).into_iter().collect();
        after.iter().for_each(|one| write(&mut store, one));
        let collection = pods();
        for change in store.since(from).unwrap() {
            let Some(seen) = change.seen_by(&collection, &selector) else { continue };
            prop_assert_eq!(known.contains_key(&change.key), seen != Action::Added, "{:?}", change);
            match seen {
                Action::Deleted => drop(known.remove(&change.key)),
                _ => drop(known.insert(change.key.clone(), (*change.object).clone())),
            }
        }
        prop_assert_eq!(known.into_iter().collect::<Vec<_>>(), listed(&store, &selector));
    }

    /// Versions are given once, in order, and the window forgets exactly what it no longer holds.
    #[test]
    fn versions_rise_and_the_window_holds(all in writes(), window in 1..8_usize) {
        let mut store = store(window);
        all.iter().for_each(|one| write(&mut store, one));
        let newest = store.revision();
        let oldest = (0..=newest).find(|from| store.since(*from).is_ok()).unwrap();
        let versions: Vec<u64> = store.since(oldest).unwrap().map(|change| change.revision).collect();
        prop_assert_eq!(&versions, &(oldest.max(1) + 1..=newest).collect::<Vec<_>>());
        prop_assert!(versions.len() <= window);
        prop_assert!(oldest == 0 || versions.len() == window);
    }
}
