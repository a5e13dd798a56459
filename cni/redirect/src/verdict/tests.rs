// SPDX-License-Identifier: Apache-2.0
//! Rules of others beside ours.

use super::*;
use crate::found::{json, native, save};
use crate::packet::{Connection, Hook, Layer4};
use crate::ruleset::Family;

fn out(port: u16) -> Packet {
    Packet {
        hook: Hook::Output,
        source: "10.9.0.2".parse().unwrap(),
        destination: "10.1.2.3".parse().unwrap(),
        layer4: Layer4::Tcp { source: 40000, destination: port },
        interface: "eth0".into(),
        uid: Some(1000),
        gid: Some(1000),
        connection: Connection::New,
        mark: 0,
        connmark: 0,
    }
}

fn judged(nat: &str, packet: &Packet) -> FoundVerdict {
    found_verdict(&save::parse(&format!("*nat\n{nat}\nCOMMIT\n"), Family::V4).unwrap(), packet)
}

const OURS: &str = "-A OUTPUT -j ISTIO_OUTPUT\n-A ISTIO_OUTPUT -p tcp -j REDIRECT --to-ports 15001";

#[test]
fn a_rule_of_somebody_else_before_ours_counts() {
    let bypass = format!("-A OUTPUT -p tcp --dport 443 -j ACCEPT\n{OURS}");
    assert_eq!(judged(&bypass, &out(443)).outcome, Ok(Outcome::Untouched));
    let other = judged(&bypass, &out(80));
    assert_eq!(other.outcome, Ok(Outcome::Redirected { port: 15001 }));
    let places: Vec<_> = other.steps.iter().map(|step| (step.chain.as_str(), step.position)).collect();
    assert_eq!(places, [("OUTPUT", 2), ("ISTIO_OUTPUT", 1)]);
}

#[test]
fn what_cannot_be_judged_is_said_and_not_guessed() {
    let limited = format!("-A OUTPUT -p tcp --dport 443 -m limit --limit 5/min -j ACCEPT\n{OURS}");
    let verdict = judged(&limited, &out(443));
    let undecided = verdict.outcome.unwrap_err();
    assert_eq!((undecided.rule.position, undecided.what.as_str()), (1, "-m limit --limit 5/min"));
    assert_eq!(undecided.to_string(), "cannot judge \"-m limit --limit 5/min\" of rule 1 in ip nat OUTPUT");
    // A condition that does not hold settles it.
    assert_eq!(judged(&limited, &out(80)).outcome, Ok(Outcome::Redirected { port: 15001 }));
    let target = judged("-A OUTPUT -p tcp -j DNAT --to-destination 10.0.0.1\n", &out(80)).outcome;
    assert_eq!(target.unwrap_err().what, "-j DNAT --to-destination 10.0.0.1");
    let unlisted = judged("-A OUTPUT -j SOMETHING", &out(80)).outcome;
    assert_eq!(unlisted.unwrap_err().what, "SOMETHING");
}

#[test]
fn chains_run_by_priority_and_their_policies_hold() {
    let saved = "*nat\n-A OUTPUT -p tcp -j REDIRECT --to-ports 15001\nCOMMIT\n\
                 *mangle\n:OUTPUT DROP [0:0]\n-A OUTPUT -p tcp --dport 80 -j ACCEPT\nCOMMIT\n";
    let rules = save::parse(saved, Family::V4).unwrap();
    assert_eq!(found_verdict(&rules, &out(80)).outcome, Ok(Outcome::Redirected { port: 15001 }));
    assert_eq!(found_verdict(&rules, &out(81)).outcome, Ok(Outcome::Dropped));
}

#[test]
fn a_goto_does_not_come_back() {
    let text =
        "-A OUTPUT -p tcp -g AWAY\n-A OUTPUT -p tcp -j REDIRECT --to-ports 1\n-A AWAY -p udp -j RETURN";
    assert_eq!(judged(text, &out(80)).outcome, Ok(Outcome::Untouched));
}

#[test]
fn of_two_chains_of_one_priority_the_younger_runs_first() {
    let listing = "table inet old {\n chain o {\n type nat hook output priority -100;\n redirect to :1\n }\n}\n\
                   table inet new {\n chain o {\n type nat hook output priority -100;\n redirect to :2\n }\n}";
    let rules = native::parse(listing).unwrap();
    assert_eq!(found_verdict(&rules, &out(80)).outcome, Ok(Outcome::Redirected { port: 2 }));
}

#[test]
fn nat_runs_where_conntrack_has_it_whatever_its_chains_say() {
    let listing = "table inet a {\n chain o {\n type filter hook output priority -50;\n meta mark set 7\n }\n}\n\
                   table inet b {\n chain o {\n type nat hook output priority 0;\n meta mark 7 redirect to :2\n }\n}";
    let rules = native::parse(listing).unwrap();
    assert_eq!(found_verdict(&rules, &out(80)).outcome, Ok(Outcome::Untouched), "the mark comes too late");
}

#[test]
fn a_nat_chain_accepts_for_itself_alone_and_drops_by_its_policy() {
    let listing = |policy| {
        format!(
            "table inet a {{\n chain o {{\n type nat hook output priority -100;\n accept\n }}\n}}\n\
             table inet b {{\n chain o {{\n type nat hook output priority -90; policy {policy};\n meta l4proto udp redirect to :2\n }}\n}}"
        )
    };
    let judged = |policy, packet: &Packet| {
        found_verdict(&native::parse(&listing(policy)).unwrap(), packet).outcome.unwrap()
    };
    let udp = Packet { layer4: Layer4::Udp { source: 1, destination: 53 }, ..out(80) };
    assert_eq!(judged("accept", &udp), Outcome::Redirected { port: 2 });
    assert_eq!(judged("drop", &udp), Outcome::Redirected { port: 2 });
    assert_eq!(judged("drop", &out(80)), Outcome::Dropped);
    let later = Packet { connection: Connection::Established, ..out(80) };
    assert_eq!(judged("drop", &later), Outcome::Untouched, "only the first packet meets it");
}

#[test]
fn a_goto_from_a_called_chain_comes_back_to_its_caller() {
    let text =
        "-A OUTPUT -j A\n-A OUTPUT -p tcp -j REDIRECT --to-ports 1\n-A A -g B\n-A A -j DROP\n-A B -j RETURN";
    assert_eq!(judged(text, &out(80)).outcome, Ok(Outcome::Redirected { port: 1 }));
}

#[test]
fn names_of_users_limited_log_lines_and_loops() {
    let named = judged("-A OUTPUT -m owner --uid-owner root -j ACCEPT", &out(80));
    assert_eq!(named.outcome.unwrap_err().what, "root", "who that is only the system knows");
    let logged = format!("-A OUTPUT -m limit --limit 5/min -j LOG\n{OURS}");
    assert_eq!(judged(&logged, &out(80)).outcome, Ok(Outcome::Redirected { port: 15001 }));
    let looped = judged("-A OUTPUT -j A\n-A A -j B\n-A B -g A", &out(80));
    assert_eq!(looped.outcome.unwrap_err().rule.chain, "B");
}

#[test]
fn tables_of_both_families_are_judged_once() {
    let listing = r#"{"nftables":[
      {"chain":{"family":"inet","table":"b","name":"o","type":"nat","hook":"output","prio":-90,"policy":"accept"}},
      {"chain":{"family":"inet","table":"a","name":"o","type":"nat","hook":"output","prio":-100,"policy":"accept"}},
      {"rule":{"family":"inet","table":"b","chain":"o","expr":[{"redirect":{"port":2}}]}},
      {"rule":{"family":"inet","table":"a","chain":"o","expr":[
        {"match":{"op":"==","left":{"meta":{"key":"skuid"}},"right":1000}},{"redirect":{"port":1}}]}}]}"#;
    let rules = json::parse(listing).unwrap();
    assert_eq!(found_verdict(&rules, &out(80)).outcome, Ok(Outcome::Redirected { port: 1 }));
    let by_another = Packet { uid: Some(7), ..out(80) };
    assert_eq!(found_verdict(&rules, &by_another).outcome, Ok(Outcome::Redirected { port: 2 }));
    let without_socket = Packet { uid: None, gid: None, ..out(80) };
    assert_eq!(found_verdict(&rules, &without_socket).outcome, Ok(Outcome::Redirected { port: 2 }));
    let later = Packet { connection: Connection::Established, ..out(80) };
    assert_eq!(found_verdict(&rules, &later).steps, []);
}

#[test]
fn traffic_is_unredirected_without_a_jump_to_a_redirecting_rule_and_not_by_conditions() {
    let config = crate::Config {
        inbound_ports_include: Some(crate::list::Selection::All),
        outbound_ranges_include: crate::list::Selection::All,
        ..crate::Config::default()
    };
    let wanted = crate::generate::ruleset(&config).unwrap();
    let saved = text::restore(&wanted, Family::V4);
    let missing = |saved: &str| {
        let found = save::parse(saved, Family::V4).unwrap();
        unredirected(&found, &wanted, Family::V4, &[15001, 15006])
    };
    assert_eq!(missing(&saved), []);
    assert_eq!(missing(&saved.replace("--dport 15008", "--dport 5432")), [], "they differ, and redirect");
    let without = |words: &str| -> String {
        saved.lines().filter(|line| !line.contains(words)).map(|line| format!("{line}\n")).collect()
    };
    assert_eq!(missing(&without("PREROUTING")), [Hook::Prerouting]);
    assert_eq!(missing(&without("OUTPUT -")), [Hook::Output]);
    assert_eq!(missing(&without("to-ports 15001")), [Hook::Output]);
    assert_eq!(missing("*nat\n-A OUTPUT -p tcp -j REDIRECT --to-ports 15001\nCOMMIT\n").len(), 2, "not ours");
}
