// SPDX-License-Identifier: Apache-2.0
//! Redaction of whatever leaves the process: tokens, private keys, and values of `token:` and `password:`.

use std::borrow::Cow;
use std::sync::LazyLock;

use cluster::bounded;
use regex::{Captures, Regex};

/// Longest reason or note of a record, in bytes.
const REASON: usize = 16 << 10;

/// Secrets, each with the text that stands for it. What a group `kept` matches stays.
const SECRETS: [(&str, &str); 5] = [
    // A JSON web token (RFC 7519); its payload alone names the account.
    (r"eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?", "<a redacted token>"),
    // PEM (RFC 7468); in a quoted text lines end with an escape. A text that was cut off has no end of it.
    (
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
        "<a redacted key>",
    ),
    // A JSON web token, and PEM, in base64, as kubeconfigs and Secrets have them.
    (r"(?:ZXlK|LS0tLS1CRUdJTi)[A-Za-z0-9+/]{16,}=*", "<a redacted value>"),
    (
        r"(?P<kept>(?i:authorization:?\s*(?:bearer|basic)|bearer)\s+)[A-Za-z0-9._~+/=-]{8,}",
        "<a redacted token>",
    ),
    // A field of YAML, JSON (quoted, or quoted again) or a flag. Behind a slash it is the end of a path.
    (
        r#"(?P<kept>(?:^|[^/\w])(?i:[\w-]*(?:token|password|passwd|client-key-data))\\*["']?\s*[:=]\s*\\*["']?)[^\s"'\\,;{}\[\]<>()]{6,}"#,
        "<a redacted value>",
    ),
];

static FINDERS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    SECRETS.iter().filter_map(|(pattern, stand_in)| Some((Regex::new(pattern).ok()?, *stand_in))).collect()
});

/// The text without secrets.
#[must_use]
pub fn redacted(text: &str) -> Cow<'_, str> {
    FINDERS.iter().fold(Cow::Borrowed(text), |text, (finder, stand_in)| {
        let replace = |found: &Captures<'_>| {
            let kept = found.name("kept").map_or("", |kept| kept.as_str());
            format!("{kept}{stand_in}")
        };
        match finder.replace_all(&text, replace) {
            Cow::Borrowed(_) => text,
            Cow::Owned(changed) => Cow::Owned(changed),
        }
    })
}

/// A reason or a note of a record: without secrets, and bounded.
#[must_use]
pub fn reason(text: &str) -> String {
    bounded(&redacted(text), REASON).into_owned()
}

/// Content of a file of evidence: without secrets, and bounded.
#[must_use]
pub fn evidence(text: &str) -> String {
    bounded(&redacted(text), bounded::OUTPUT).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str =
        "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQifQ.c2lnbmF0dXJl";

    #[test]
    fn every_pattern_is_used() {
        assert_eq!(FINDERS.len(), SECRETS.len());
    }

    #[test]
    fn no_secret_leaves_in_whichever_form() {
        let pem = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIsecret\n-----END EC PRIVATE KEY-----";
        let quoted = pem.replace('\n', "\\n");
        let texts = [
            format!("/users/0/user/token of the kubeconfig is Some(\"{TOKEN}\"), not Some(\"{TOKEN}\")"),
            format!("Authorization: Bearer {TOKEN}"),
            "authorization: bearer c2VjcmV0c2VjcmV0".to_owned(),
            "Authorization: Basic c2VjcmV0c2VjcmV0".to_owned(),
            format!("key:\n{pem}\nnext"),
            format!("{{\"key\":\"{quoted}\"}}"),
            pem.split("\n-----END").next().unwrap_or_default().to_owned(),
            "client-key-data: LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWXNlY3JldA==".to_owned(),
            "token: c2VjcmV0.c2VjcmV0".to_owned(),
            "{\"token\":\"secret-secret\"}".to_owned(),
            r#"{\"token\": \"secret-secret\"}"#.to_owned(),
            "--bootstrap-token=abcdef.secretsecret".to_owned(),
            "db_password = 'secretsecret'".to_owned(),
        ];
        for text in &texts {
            let redacted = redacted(text);
            assert!(redacted.contains("<a redacted "), "{redacted}");
            for secret in ["secret", "c2Vj", "c2lnbmF0dXJl", "LS0tLS1CRUdJTi", "eyJzdWI"] {
                assert!(!redacted.contains(secret), "{secret} is in {redacted}");
            }
        }
        assert!(redacted(&texts[4]).ends_with("\nnext"), "what follows a key stays");
    }

    #[test]
    fn what_is_no_secret_stays_as_it_is() {
        for text in [
            "open /var/run/secrets/token: permission denied",
            "the token: null, the password: \"\"",
            "automountServiceAccountToken: false",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            r#"{"serviceAccountToken": {"expirationSeconds": 3600, "path": "token"}}"#,
            "eyJ is how a token begins",
            "/users/0/user/token of the kubeconfig is None",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn a_reason_and_a_file_of_evidence_have_bounds() {
        let long = format!("{TOKEN} {}", "x".repeat(4 << 20));
        let (reason, evidence) = (reason(&long), evidence(&long));
        assert!(reason.len() < REASON + 64 && evidence.len() < bounded::OUTPUT + 64);
        for text in [reason, evidence] {
            assert!(text.starts_with("<a redacted token> x") && text.contains(" bytes left out "));
        }
    }
}
