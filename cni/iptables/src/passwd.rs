// SPDX-License-Identifier: Apache-2.0
//! Users by name, as `passwd(5)` lists them: no name service is asked.

/// UID of `name` in the text of `/etc/passwd`.
#[must_use]
pub fn uid(passwd: &str, name: &str) -> Option<u32> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_the_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\nistio-proxy-2:x:1:1::/:\nistio-proxy:x:1338:1338::/:\nbad:x:y:0::/:\n";
        assert_eq!(uid(passwd, "istio-proxy"), Some(1338));
        assert_eq!(uid(passwd, "root"), Some(0));
        for name in ["istio", "broken", "bad", ""] {
            assert_eq!(uid(passwd, name), None, "{name}");
        }
    }
}
