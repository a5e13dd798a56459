// SPDX-License-Identifier: Apache-2.0
//! The service account's token. The kubelet replaces the file while we run, so it is looked at before every request and read when it is
//! another one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::DATE;
use http::{HeaderMap, HeaderValue};
use k8s_openapi::jiff::fmt::rfc2822;

use super::error::Token;
use super::token;
use crate::files::version::{Cached, FileVersion};

/// Tolerated clock skew between node and API server, where an answer has no `Date`. Kubelets renew a token of an hour, the default, when twelve
/// minutes are left (a fifth of it): one that is nearer to its end than this was not renewed, and may be over by the API server's clock.
const SKEW: Duration = Duration::from_secs(600);

/// Resolution of `Date`, and latency of the answer.
const PRECISION: Duration = Duration::from_secs(5);

/// No token to send.
#[derive(Debug, thiserror::Error)]
pub(super) enum AccountError {
    #[error("cannot read the service account's token {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot use the service account's token {}: it is empty or holds what no header can", path.display())]
    Unusable { path: PathBuf },
}

/// Service account of the agent.
#[derive(Debug, Clone)]
pub(super) struct Account {
    path: Arc<Path>,
    header: Arc<Cached<HeaderValue>>,
    /// The API server accepted a token of this account. A later token of it, which a kubelet got from that API server, need not have been
    /// used yet when the account goes.
    accepted: Arc<AtomicBool>,
}

impl Account {
    pub(super) fn new(token_file: &Path) -> Self {
        Self { path: token_file.into(), header: Arc::default(), accepted: Arc::default() }
    }

    /// The `Authorization` header to send now.
    pub(super) fn header(&self) -> Result<HeaderValue, AccountError> {
        let version = FileVersion::of(&self.path).map_err(|source| self.unread(source))?;
        self.header.get(version, || self.read())
    }

    /// Another token than the one that was just refused, if the file holds one by now.
    pub(super) fn instead_of(&self, refused: &HeaderValue) -> Option<HeaderValue> {
        self.header.forget();
        self.header().ok().filter(|header| header != refused)
    }

    /// Records that the API server authenticated a token of this account.
    pub(super) fn accepted(&self) {
        self.accepted.store(true, Ordering::Relaxed);
    }

    /// Classifies a token that was rejected by an answer with these headers.
    pub(super) fn token(&self, refused: &HeaderValue, answer: &HeaderMap) -> Token {
        let until = date(answer).map_or_else(
            || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + SKEW,
            |date| date + PRECISION,
        );
        let text = refused.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
        judged(text.and_then(token::TokenExpiry::of), self.accepted.load(Ordering::Relaxed), until)
    }

    fn read(&self) -> Result<HeaderValue, AccountError> {
        let text = std::fs::read_to_string(&self.path).map_err(|source| self.unread(source))?;
        let token = text.trim();
        let header = HeaderValue::try_from(format!("Bearer {token}")).ok().filter(|_| !token.is_empty());
        let mut header = header.ok_or_else(|| AccountError::Unusable { path: self.path.to_path_buf() })?;
        header.set_sensitive(true);
        Ok(header)
    }

    fn unread(&self, source: io::Error) -> AccountError {
        AccountError::Read { path: self.path.to_path_buf(), source }
    }
}

/// `Date` of an answer, since 1970: the clock of the API server, which has judged the token.
fn date(answer: &HeaderMap) -> Option<Duration> {
    let date = rfc2822::parse(answer.get(DATE)?.to_str().ok()?).ok()?;
    u64::try_from(date.timestamp().as_second()).ok().map(Duration::from_secs)
}

/// A token that is no JWT does not say when it expires; one without `exp` never does. One that ends until then (since 1970) may have expired.
fn judged(life: Option<token::TokenExpiry>, accepted: bool, until: Duration) -> Token {
    match life {
        Some(token::TokenExpiry::Until(end)) if until >= end => Token::Expired,
        Some(_) if accepted => Token::Proven,
        _ => Token::Unproven,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_token_is_judged_by_its_past_and_by_its_own_end() {
        let second = Duration::from_secs;
        let until = |end| Some(token::TokenExpiry::Until(second(end)));
        for (life, accepted, want) in [
            (until(501), true, Token::Proven),
            (until(501), false, Token::Unproven),
            (until(500), true, Token::Expired),
            (until(400), false, Token::Expired),
            (Some(token::TokenExpiry::Endless), true, Token::Proven),
            (Some(token::TokenExpiry::Endless), false, Token::Unproven),
            (None, true, Token::Unproven),
        ] {
            assert_eq!(judged(life, accepted, second(500)), want, "{life:?} {accepted}");
        }
    }

    #[test]
    fn a_token_that_was_renewed_is_of_the_account_that_was_accepted() {
        let account = Account::new(Path::new("/nonexistent"));
        // {"sub":"x"}
        let token = HeaderValue::from_static("Bearer e30.eyJzdWIiOiJ4In0.c2ln");
        let none = HeaderMap::new();
        assert_eq!(account.token(&token, &none), Token::Unproven);
        account.accepted();
        assert_eq!(account.token(&token, &none), Token::Proven);
        assert_eq!(account.token(&HeaderValue::from_static("Bearer opaque"), &none), Token::Unproven);
    }

    #[test]
    fn a_token_is_judged_by_the_api_servers_clock() {
        let account = Account::new(Path::new("/nonexistent"));
        account.accepted();
        // {"exp":4102444800}, the beginning of 2100
        let token = HeaderValue::from_static("Bearer e30.eyJleHAiOjQxMDI0NDQ4MDB9.c2ln");
        for (date, want) in [
            ("Thu, 31 Dec 2099 23:59:54 GMT", Token::Proven),
            ("Thu, 31 Dec 2099 23:59:55 GMT", Token::Expired),
            ("Fri, 01 Jan 2100 00:00:01 GMT", Token::Expired),
            ("yesterday", Token::Proven),
        ] {
            let answer = HeaderMap::from_iter([(DATE, HeaderValue::from_static(date))]);
            assert_eq!(account.token(&token, &answer), want, "{date}");
        }
    }

    #[test]
    fn a_replaced_file_is_read_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join("token");
        std::fs::write(&token, "one\n").unwrap();
        let account = Account::new(&token);
        assert_eq!(account.header().unwrap(), "Bearer one");
        let next = dir.path().join("next");
        std::fs::write(&next, "two\n").unwrap();
        std::fs::rename(next, &token).unwrap();
        assert_eq!(account.header().unwrap(), "Bearer two");
    }

    #[test]
    fn a_swapped_directory_link_is_another_file() {
        let dir = tempfile::tempdir().unwrap();
        for (version, token) in [("v1", "one"), ("v2", "two")] {
            std::fs::create_dir(dir.path().join(version)).unwrap();
            std::fs::write(dir.path().join(version).join("token"), token).unwrap();
        }
        let link = |to: &str| {
            std::os::unix::fs::symlink(to, dir.path().join("tmp")).unwrap();
            std::fs::rename(dir.path().join("tmp"), dir.path().join("..data")).unwrap();
        };
        link("v1");
        let account = Account::new(&dir.path().join("..data/token"));
        assert_eq!(account.header().unwrap(), "Bearer one");
        link("v2");
        assert_eq!(account.header().unwrap(), "Bearer two");
    }

    #[test]
    fn a_refused_token_is_only_replaced_by_another() {
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join("token");
        std::fs::write(&token, "one").unwrap();
        let account = Account::new(&token);
        let refused = account.header().unwrap();
        assert_eq!(account.instead_of(&refused), None);
        std::fs::write(&token, "two").unwrap();
        assert_eq!(account.instead_of(&refused).unwrap(), "Bearer two");
    }

    #[test]
    fn what_cannot_be_sent_is_an_error_that_names_the_file_but_not_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join("token");
        assert!(matches!(Account::new(&token).header(), Err(AccountError::Read { .. })));
        for bad in ["", "\n", "s3cr\net"] {
            std::fs::write(&token, bad).unwrap();
            let error = Account::new(&token).header().unwrap_err().to_string();
            assert!(error.contains(token.to_str().unwrap()) && !error.contains("s3cr"), "{error}");
        }
    }

    #[test]
    fn a_token_never_shows() {
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join("token");
        std::fs::write(&token, "s3cret").unwrap();
        let account = Account::new(&token);
        account.header().unwrap();
        assert!(!format!("{account:?}").contains("s3cret"));
    }
}
