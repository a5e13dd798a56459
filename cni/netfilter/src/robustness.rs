// SPDX-License-Identifier: Apache-2.0
//! Everything that reads takes any bytes: random ones, and real ones that were cut or changed.

use proptest::prelude::*;
use redirect::config::{Config, Dns, Mode};
use redirect::generate::ruleset;
use redirect::ruleset::Dialect;

use crate::decode::decode;
use crate::fake::ordinary;
use crate::snapshot::{Name, NfFamily, RuleState, TableState};
use crate::step::Step;
use crate::wire::{Malformed, acknowledgement, attributes, messages, spans};
use crate::{encode, expression, read};

/// Runs everything that reads over bytes.
fn read_everything(bytes: &[u8]) {
    let _ = acknowledgement(bytes);
    for message in messages(bytes).flatten() {
        let _ = message.errno();
        read_body(message.body);
        read_body(message.body.get(4..).unwrap_or_default());
    }
    read_body(bytes);
    for sequence in 0..4 {
        let _ = Step::of(bytes, sequence).to_string();
    }
}

fn read_body(body: &[u8]) {
    assert!(attributes(body).count() <= body.len(), "each attribute takes its header");
    assert!(spans(body).flatten().all(|(_, span)| body.get(span).is_some()), "spans lie inside");
    let mut tables =
        vec![TableState { family: NfFamily::Ip, name: Name::new(b"nat"), flags: 0, chains: Vec::new() }];
    let _ = read::table(&mut tables, NfFamily::Ip, body);
    let mut place = read::Place::default();
    let _ = read::chain(&mut tables, NfFamily::Ip, body, &mut place);
    let _ = read::rule(&mut tables, NfFamily::Ip, body, &mut place);
    for (_, list) in attributes(body).flatten() {
        read_list(list);
    }
    read_list(body);
}

fn read_list(list: &[u8]) {
    let _ = expression::parse(list);
    let _ = expression::jumps_to(list);
    let rule = RuleState { handle: 1, counter: None, expressions: list.to_vec(), userdata: Vec::new() };
    let _ = decode(NfFamily::Ip6, &rule);
    let _ = decode(NfFamily::Inet, &rule);
    let _ = expression::keys(list);
    let spelled = expression::spell_out::<Malformed>(list, |_| Ok(Some(vec![vec![0, 53], vec![1]])));
    if let Ok(Some(spelled)) = spelled {
        let again = expression::spell_out::<Malformed>(&spelled, |_| Ok(Some(Vec::new())));
        assert_eq!(again, Ok(None), "nothing is left to spell out");
    }
    let mut cleared = list.to_vec();
    if expression::take_counter(&mut cleared).is_ok() {
        let again = expression::take_counter(&mut cleared);
        assert!(again.is_ok_and(|counter| counter.unwrap_or_default().packets == 0), "cleared");
    }
}

/// The transactions of a pod in both dialects, the second with DNS, which asks for sets.
fn real() -> [Vec<u8>; 2] {
    let native = Config { dialect: Dialect::Nft, mode: Mode::Tproxy, dns: Dns::All, ..ordinary() };
    [ordinary(), native].map(|config| encode::batch(&ruleset(&config).unwrap(), Some(1)).unwrap())
}

proptest! {
    #[test]
    fn random_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        read_everything(&bytes);
    }

    #[test]
    fn changed_bytes_are_read(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        from in any::<prop::sample::Index>(),
    ) {
        for mut bytes in real() {
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            read_everything(&bytes);
            read_everything(&bytes[from.index(bytes.len())..]);
        }
    }
}

#[test]
fn bytes_cut_anywhere_are_read() {
    for bytes in real() {
        for end in 0..bytes.len().min(1500) {
            read_everything(&bytes[..end]);
        }
    }
}

#[test]
fn an_error_is_read_from_its_head_alone() {
    let mut error = vec![0; 36];
    error[4..6].copy_from_slice(&crate::wire::ERROR.to_ne_bytes());
    error[8..12].copy_from_slice(&7_u32.to_ne_bytes());
    error[16..20].copy_from_slice(&(-85_i32).to_ne_bytes());
    assert_eq!(acknowledgement(&error[..20]), Ok((7, 85)));
    assert!(acknowledgement(&error[..19]).is_err());
    error[4..6].copy_from_slice(&crate::wire::DONE.to_ne_bytes());
    assert!(acknowledgement(&error).is_err());
}
