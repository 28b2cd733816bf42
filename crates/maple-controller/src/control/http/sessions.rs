//! Sessions of browsers: a token is exchanged for a cookie, so that no page has to keep the token.
//!
//! A session is as good as its token: it has the token's role at each moment, and ends with it. Scripts can't read the
//! cookie, and browsers send it only with requests of the server's own pages (`SameSite=Strict`). Other servers of the
//! same machine are the same site, and get the cookie too (RFC 6265 §8.5). So whoever changes something with a cookie
//! also shows the session's CSRF token. Only the answer that begins the session has it, and the page keeps it where no
//! other port's pages can read it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, header};
use parking_lot::{Mutex, MutexGuard};
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq as _;

use super::tokens::TokenDigest;
use crate::random::random;

/// The maximum time for which a session lasts. Chosen: a working day with its breaks; a browser that is left open is
/// not trusted for longer.
pub(super) const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);
/// The maximum number of sessions. The oldest gives way. Chosen: the sessions of sixteen tokens that each have as many
/// as they may, and a bound on memory.
const MAX_SESSIONS: usize = 256;
/// The maximum number of sessions of a token. Its oldest gives way, so that no token ends the sessions of others.
/// Chosen: more browsers than a person uses.
const MAX_OF_TOKEN: usize = 16;
/// The header that has the CSRF token.
pub(super) const CSRF: HeaderName = HeaderName::from_static("x-csrf-token");

/// A session.
#[derive(Clone, Debug)]
pub(super) struct BrowserSession {
    /// The digest of what the cookie has.
    id: [u8; 32],
    /// The token that began it.
    pub token: TokenDigest,
    /// The token that a page sends with changes.
    pub csrf: String,
    ends: Instant,
}

/// The sessions that have begun, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<VecDeque<BrowserSession>>);

impl Sessions {
    /// Begins a session for a token. Returns what the cookie has.
    ///
    /// # Errors
    /// The system's, if it gives no random bytes.
    pub fn begin(&self, token: TokenDigest, now: Instant) -> std::io::Result<String> {
        let (secret, csrf) = (hex::encode(random::<32>()?), hex::encode(random::<16>()?));
        let session = BrowserSession { id: id(&secret), token, csrf, ends: now + LIFETIME };
        let mut all = self.lock(now);
        if all.iter().filter(|one| one.token == token).count() == MAX_OF_TOKEN {
            let oldest = all.iter().position(|one| one.token == token);
            oldest.into_iter().for_each(|oldest| drop(all.remove(oldest)));
        }
        if all.len() == MAX_SESSIONS {
            all.pop_front();
        }
        all.push_back(session);
        Ok(secret)
    }

    /// Returns the session of a cookie. All sessions are compared, each in the same time.
    pub fn find(&self, secret: &str, now: Instant) -> Option<BrowserSession> {
        let id = id(secret);
        let all = self.lock(now);
        all.iter().fold(None, |found, one| if bool::from(one.id.ct_eq(&id)) { Some(one.clone()) } else { found })
    }

    /// Ends a session.
    pub fn end(&self, session: &BrowserSession) {
        self.lock(Instant::now()).retain(|one| one.id != session.id);
    }

    /// Reports whether a session has neither ended nor been ended.
    pub fn has(&self, session: &BrowserSession, now: Instant) -> bool {
        self.lock(now).iter().any(|one| one.id == session.id)
    }

    /// Returns the sessions that go on.
    fn lock(&self, now: Instant) -> MutexGuard<'_, VecDeque<BrowserSession>> {
        let mut all = self.0.lock();
        while all.front().is_some_and(|oldest| oldest.ends <= now) {
            all.pop_front();
        }
        all
    }
}

impl BrowserSession {
    /// Reports whether a request shows the session's CSRF token.
    pub fn is_shown(&self, headers: &HeaderMap) -> bool {
        headers.get(CSRF).is_some_and(|shown| bool::from(self.csrf.as_bytes().ct_eq(shown.as_bytes())))
    }
}

fn id(secret: &str) -> [u8; 32] {
    let mut id = [0; 32];
    id.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
    id
}

/// Returns the name of the cookie of a server at this port. Browsers tell the ports of a host apart no further: without
/// it, signing in at one controller would sign out of another on the same machine.
pub(super) fn cookie_name(port: u16) -> String {
    format!("maple_session_{port}")
}

/// Returns what the session's cookie of a request has.
pub(super) fn cookie<'h>(name: &str, headers: &'h HeaderMap) -> Option<&'h str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.into_iter().find_map(|(own, value)| (own == name).then_some(value))
}

/// Writes the header that gives a browser its cookie; without a secret, the one that takes it away.
pub(super) fn set_cookie(name: &str, secret: Option<&str>, has_tls: bool) -> String {
    let secure = if has_tls { "; Secure" } else { "" };
    let seconds = secret.map_or(0, |_| LIFETIME.as_secs());
    format!("{name}={}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}", secret.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_bounded_and_end_after_half_a_day() {
        let (sessions, begin) = (Sessions::default(), Instant::now());
        let new = |token: u8| sessions.begin([token; 32], begin).expect("the system has random bytes");
        let all: Vec<String> = (0..=MAX_SESSIONS).map(|number| new((number % 100) as u8)).collect();
        assert!(sessions.find(&all[0], begin).is_none() && sessions.find(&all[1], begin).is_some());
        (0..2 * MAX_OF_TOKEN).for_each(|_| drop(new(200)));
        let of_others = all.iter().filter(|one| sessions.find(one, begin).is_some()).count();
        assert_eq!(of_others, MAX_SESSIONS - MAX_OF_TOKEN, "a token ends few sessions of others");
        let all = [String::new(), new(7)];
        assert!(sessions.find(&all[1], begin + LIFETIME - Duration::from_secs(1)).is_some());
        assert!(sessions.find(&all[1], begin + LIFETIME).is_none());
        assert!(sessions.find("", begin).is_none());
    }

    #[test]
    fn a_cookie_is_found_among_others_and_is_not_for_scripts() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, "a=b; maple_session_12=x".parse().expect("a header"));
        assert_eq!(cookie("maple_session_1", &headers), None);
        headers.append(header::COOKIE, "c=d;maple_session_1=00ff".parse().expect("a header"));
        assert_eq!(cookie("maple_session_1", &headers), Some("00ff"));
        assert_eq!(
            set_cookie("maple_session_1", Some("00ff"), true),
            "maple_session_1=00ff; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"
        );
        assert_eq!(
            set_cookie("maple_session_1", None, false),
            "maple_session_1=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
        );
    }
}
