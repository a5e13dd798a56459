// SPDX-License-Identifier: Apache-2.0
//! Precedence: the command line over the environment, a later variable over an earlier one, and all of them over the default.

use iptables::exit::Exit;
use iptables::flag::{ALL, Flag, Kind};
use iptables::given::{FlagOrigin, FlagValues, Value, with_flags};

use crate::stage::{KernelCall, Stage};

/// Two values of a flag, neither of them its default.
fn samples(flag: &Flag) -> [&'static str; 2] {
    match flag.kind {
        Kind::Text => ["7", "8"],
        Kind::Bool => ["true", "T"],
        Kind::Number => ["7", "0x8"],
        Kind::Duration => ["7s", "1m8s"],
    }
}

fn read(flag: &'static Flag, arguments: &[String], env: &[(String, &str)]) -> (Value, usize) {
    let env = |name: &str| env.iter().find(|(known, _)| known == name).map(|(_, value)| (*value).to_owned());
    let command = with_flags(clap::Command::new("test"));
    let (given, _) = FlagValues::read(command, arguments.iter().map(Into::into), &env).unwrap();
    (given.value(flag), given.ignored.len())
}

#[test]
fn every_flag_takes_its_value_from_whoever_counts_most() {
    for flag in ALL {
        let [low, high] = samples(flag);
        let default = Value { text: flag.default.to_owned(), origin: FlagOrigin::Default };
        assert_eq!(read(flag, &[], &[]), (default.clone(), 0), "{}", flag.name);
        let long = format!("--{}={high}", flag.name);
        let want = Value { text: high.to_owned(), origin: FlagOrigin::Flag };
        assert_eq!(read(flag, std::slice::from_ref(&long), &[]).0, want, "{}", flag.name);
        // Of several the last counts, whichever way it is written.
        let first = format!("--{}={low}", flag.name);
        assert_eq!(read(flag, &[first, long.clone()], &[]).0, want, "{}", flag.name);
        let mut env: Vec<(String, &str)> = Vec::new();
        for variable in flag.variables() {
            env.push((variable.clone(), low));
            let want = Value { text: low.to_owned(), origin: FlagOrigin::Env(variable) };
            assert_eq!(read(flag, &[], &env).0, want, "{}", flag.name);
        }
        assert_eq!(read(flag, &[long], &env).0, want, "{}", flag.name);
        // Malformed is ignored.
        if let (Some(last), true) = (env.last_mut(), flag.kind != Kind::Text) {
            last.1 = "maybe";
            let (value, ignored) = read(flag, &[], &env);
            assert_eq!(ignored, 1, "{}", flag.name);
            let others = flag.variables().len() > 1;
            assert_eq!(value.text, if others { low } else { flag.default }, "{}", flag.name);
        }
    }
}

#[test]
fn short_names_are_upstream_s() {
    let stage = Stage::new();
    let config = stage.config(&[
        "istio-iptables",
        "-p",
        "1",
        "-z2",
        "-e=3",
        "-u",
        "4",
        "-g",
        "5",
        "-m",
        "TPROXY",
        "-b",
        "6",
        "-d",
        "7",
        "-c",
        "e8",
        "-i",
        "9.0.0.0/8",
        "-x",
        "10.0.0.0/8",
        "-q",
        "11",
        "-o",
        "12",
        "-k",
        "e13",
        "-t",
        "14",
        "-r",
        "15",
    ]);
    let long = stage.config(&[
        "--envoy-port=1",
        "--inbound-capture-port=2",
        "--inbound-tunnel-port=3",
        "--proxy-uid=4",
        "--proxy-gid=5",
        "--istio-inbound-interception-mode=TPROXY",
        "--istio-inbound-ports=6",
        "--istio-local-exclude-ports=7",
        "--istio-exclude-interfaces=e8",
        "--istio-service-cidr=9.0.0.0/8",
        "--istio-service-exclude-cidr=10.0.0.0/8",
        "--istio-outbound-ports=11",
        "--istio-local-outbound-ports-exclude=12",
        "--kube-virt-interfaces=e13",
        "--istio-inbound-tproxy-mark=14",
        "--istio-inbound-tproxy-route-table=15",
    ]);
    assert_eq!(config, long);
    assert_eq!((config.proxy_port, config.inbound_capture_port, config.inbound_tunnel_port), (1, 2, 3));
    assert_eq!((config.tproxy_mark, config.tproxy_route_table), (14, 15));
    assert_ne!(config, stage.config(&[]));
}

#[test]
fn switches_take_a_value_only_behind_an_equals_sign() {
    let stage = Stage::new();
    assert!(stage.config(&["--drop-invalid"]).drop_invalid);
    assert!(!stage.config(&["--drop-invalid=false"]).drop_invalid);
    assert!(!stage.config(&["--drop-invalid", "--drop-invalid=F"]).drop_invalid);
    let seen = stage.run(&["--drop-invalid", "false"]);
    assert!(matches!(seen.asked.as_slice(), [KernelCall::Program(request)] if request.config.drop_invalid));
    assert!(seen.stderr.contains("argument=false"), "{}", seen.stderr);
    assert!(stage.run(&["-n"]).asked.is_empty());
}

#[test]
fn a_command_line_that_cannot_be_read_ends_as_upstream_s_entry_point_does() {
    for arguments in [
        &["--unknown"][..],
        &["--dry-run=maybe"],
        &["--probe-timeout=5"],
        &["-p"],
        &["--iptables-probe-port=70000"],
    ] {
        let seen = Stage::new().run(arguments);
        assert_eq!((seen.exit, seen.exit.code()), (Exit::BadCommandLine, 255), "{arguments:?}");
        assert!(seen.stdout.is_empty() && seen.asked.is_empty());
    }
    let help = Stage::new().run(&["--help"]);
    assert_eq!(help.exit, Exit::Success);
    for flag in ALL {
        assert!(help.stdout.contains(&format!("--{}", flag.name)), "{}", flag.name);
    }
}

#[test]
fn the_logging_flags_of_injected_containers_are_taken() {
    let seen = Stage::new().run(&[
        "istio-iptables",
        "--log_output_level=default:info",
        "--log_as_json",
        "--log_target=stdout",
        "-n",
    ]);
    assert_eq!(seen.exit, Exit::Success);
    for line in seen.stderr.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["level"], "info");
    }
    assert!(seen.stderr.lines().count() >= 2);
    assert!(Stage::new().run(&["--log_output_level=default:none"]).stderr.is_empty());
}
