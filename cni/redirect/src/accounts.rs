// SPDX-License-Identifier: Apache-2.0
//! Users and groups by name, as `passwd(5)` and `group(5)` list them: no name service is asked.

use crate::host::Environment;
use crate::list::Selection;
use crate::ruleset::Id;

/// Where users are listed.
pub const USERS: &str = "/etc/passwd";
/// Where groups are listed.
pub const GROUPS: &str = "/etc/group";

/// A user or group that iptables would not know either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read {setting}: {token:?} is neither in {file} nor a number")]
pub struct UnknownAccount {
    /// Flag or variable.
    pub setting: &'static str,
    /// The element of its list.
    pub token: String,
    /// [`USERS`] or [`GROUPS`].
    pub file: &'static str,
}

/// Number of `name` in the text of [`USERS`] or [`GROUPS`].
#[must_use]
pub fn number(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

/// Puts numbers in the place of names, as iptables does: those of `file`, or what C reads as a number (`007` is octal). `read` returns a
/// file's text; it is asked only if there is a name.
///
/// # Errors
/// The first that is neither. The others are numbers all the same.
pub fn resolve(
    setting: &'static str,
    file: &'static str,
    ids: &mut [Id],
    read: impl Fn(&str) -> Option<String>,
) -> Result<(), UnknownAccount> {
    let (mut text, mut outcome) = (None, Ok(()));
    for id in ids {
        let Id::Name(token) = id else { continue };
        let text = text.get_or_insert_with(|| read(file).unwrap_or_default());
        match number(text, token).or_else(|| c_number(token)) {
            Some(number) => *id = Id::Number(number),
            None => outcome = outcome.and(Err(UnknownAccount { setting, token: token.clone(), file })),
        }
    }
    outcome
}

/// [`resolve`] for the groups whose traffic is captured and, where those are all, the groups whose traffic is not.
///
/// # Errors
/// See [`resolve`].
pub fn resolve_groups(
    include: &mut Selection<Id>,
    exclude: &mut [Id],
    read: impl Fn(&str) -> Option<String>,
) -> Result<(), UnknownAccount> {
    match include {
        Selection::All => resolve(Environment::GROUPS_EXCLUDE, GROUPS, exclude, read),
        Selection::List(list) => resolve(Environment::GROUPS, GROUPS, list, read),
    }
}

/// A number with C's prefixes for octal and hexadecimal. The highest is nobody's.
fn c_number(token: &str) -> Option<u32> {
    let (digits, radix) =
        match (token.strip_prefix("0x").or(token.strip_prefix("0X")), token.strip_prefix('0')) {
            (Some(digits), _) => (digits, 16),
            (None, Some(digits)) => (digits, 8),
            (None, None) => (token, 10),
        };
    // A sign is for the beginning alone, and Rust reads one here.
    let digits = Some(digits).filter(|digits| radix == 10 || !digits.starts_with('+'))?;
    u32::from_str_radix(digits, radix).ok().filter(|number| *number != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::{groups, ids};

    #[test]
    fn an_account_is_found_by_the_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\nistio-proxy-2:x:1:1::/:\nistio-proxy:x:1338:1338::/:\nbad:x:y:0::/:\n";
        assert_eq!(number(passwd, "istio-proxy"), Some(1338));
        assert_eq!(number(passwd, "root"), Some(0));
        for name in ["istio", "broken", "bad", ""] {
            assert_eq!(number(passwd, name), None, "{name}");
        }
        assert_eq!(number("docker:x:998:me,you\njava:x:202:\n", "java"), Some(202));
    }

    #[test]
    fn names_become_the_numbers_that_iptables_reads() {
        let read = |path: &str| (path == GROUPS).then(|| "java:x:202:\n010:x:7:\n".to_owned());
        let mut list = ids("java,303,007,0x10,010,wheel,0x+5,0+7,1-9,4294967295");
        let unknown = resolve("--proxy-gid", GROUPS, &mut list, read).map_err(|error| error.to_string());
        assert_eq!(
            unknown,
            Err(r#"read --proxy-gid: "wheel" is neither in /etc/group nor a number"#.to_owned())
        );
        let mut want: Vec<Id> = [202, 303, 7, 16, 7].map(Id::Number).into();
        want.extend(["wheel", "0x+5", "0+7", "1-9", "4294967295"].map(|name| Id::Name(name.to_owned())));
        assert_eq!(list, want);
    }

    #[test]
    fn nothing_is_read_without_a_name() {
        let read = |path: &str| panic!("{path} is read");
        assert_eq!(resolve("--proxy-uid", USERS, &mut ids("1337,0"), read), Ok(()));
        assert_eq!(resolve_groups(&mut Selection::All, &mut [], read), Ok(()));
    }

    #[test]
    fn excluded_groups_count_beside_all_of_them_alone() {
        let unknown = |include: &str| {
            resolve_groups(&mut groups(include), &mut ids("wheel"), |_| None).map_err(|error| error.setting)
        };
        assert_eq!(unknown("*"), Err(Environment::GROUPS_EXCLUDE));
        assert_eq!(unknown("java"), Err(Environment::GROUPS));
        assert_eq!(unknown("7"), Ok(()));
    }
}
