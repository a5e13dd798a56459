// SPDX-License-Identifier: Apache-2.0
//! Rules as text, spelled as upstream spells them. It is what a dry run writes and what people read.

mod native;
mod restore;

use crate::ruleset::{Dialect, Match, Rule, Ruleset, Target};

pub use native::native;
pub use restore::restore;

/// Output of a dry run: the restore text of each family, or upstream's commands.
#[must_use]
pub fn dry_run(ruleset: Ruleset) -> String {
    match ruleset.dialect {
        Dialect::Iptables => ruleset.families().map(|family| restore(&ruleset, family)).collect(),
        Dialect::Nft => native(&ruleset.as_upstream()),
    }
}

/// Output of a dry run of a clean-up, which adds no rule.
#[must_use]
pub fn clean_up(ruleset: &Ruleset) -> String {
    match ruleset.dialect {
        Dialect::Iptables => ruleset.families().map(|family| restore::removal(ruleset, family)).collect(),
        Dialect::Nft => native::removal(),
    }
}

/// One rule as the command that adds it (`-A ISTIO_OUTPUT …`, `insert rule inet istio-proxy-nat prerouting index 0 …`).
#[must_use]
pub fn command(dialect: Dialect, rule: &Rule) -> String {
    match dialect {
        Dialect::Iptables => restore::Command(rule).to_string(),
        Dialect::Nft => native::Command(rule).to_string(),
    }
}

/// One rule without the chain that it is in: its conditions and what happens then.
#[must_use]
pub fn rule(dialect: Dialect, rule: &Rule) -> String {
    match dialect {
        Dialect::Iptables => restore::Body(rule).to_string(),
        Dialect::Nft => native::Body(rule).to_string(),
    }
}

/// One condition of an iptables rule.
#[must_use]
pub fn condition(condition: &Match) -> String {
    restore::MatchText(condition).to_string().trim_end().to_owned()
}

/// Target of an iptables rule with these conditions.
#[must_use]
pub fn target(target: &Target, conditions: &[Match]) -> String {
    restore::TargetText(target, conditions).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Mode};
    use crate::generate::ruleset;
    use crate::list::Selection;

    fn rules(dialect: Dialect) -> Ruleset {
        let config = Config {
            dialect,
            ipv6: true,
            mode: Mode::Tproxy,
            inbound_ports_include: Some(Selection::All),
            outbound_ranges_include: Selection::All,
            ..Config::default()
        };
        ruleset(&config).unwrap()
    }

    #[test]
    fn a_clean_up_undoes_each_rule_that_leads_to_ours_and_adds_none() {
        let text = clean_up(&rules(Dialect::Iptables));
        let added = dry_run(rules(Dialect::Iptables));
        let of_chains =
            |text: &str, command: &str| text.lines().filter(|line| line.starts_with(command)).count();
        assert_eq!((of_chains(&text, "-A "), of_chains(&text, "-I "), of_chains(&text, "-N ")), (0, 0, 0));
        for command in ["-F ", "-X "] {
            assert_eq!(of_chains(&text, command), of_chains(&added, "-N "));
        }
        let v4 = "* mangle
-D OUTPUT -p tcp -m connmark --mark 1337 -j CONNMARK --restore-mark
-D OUTPUT ! -d 127.0.0.1/32 -p tcp -o lo -m owner --gid-owner 1337 -j MARK --set-mark 1338
";
        assert!(text.starts_with(v4), "{text}");
        let end = "-X ISTIO_INBOUND\nCOMMIT\n";
        assert!(text.ends_with(end), "{text}");
        assert_eq!(text.matches("\n-D PREROUTING -p tcp -j ISTIO_INBOUND\n").count(), 2, "{text}");
    }

    #[test]
    fn a_native_clean_up_deletes_the_tables() {
        let text = clean_up(&rules(Dialect::Nft));
        let names = ["nat", "mangle", "raw"].map(|name| format!("inet istio-proxy-{name}"));
        let want = names.map(|name| format!("add table {name}\ndelete table {name}\n")).concat();
        assert_eq!(text, want);
    }
}
