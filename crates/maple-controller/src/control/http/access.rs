//! Access: who may ask what, by roles and tokens, and what browsers are kept from.
//!
//! # On the loopback interface without tokens
//!
//! Every user of the machine reaches a port there, and so does every page in a browser, unlike the control socket. So
//! clients may only read. A page of another site could give its own name the address 127.0.0.1 and read then: such a
//! request says the page's name as its host, and is refused.
//!
//! # With tokens
//!
//! Each request needs one, or the cookie of a session (`sessions.rs`). A page of another site has neither; a request
//! that changes something is refused also if it says that it comes from a page elsewhere.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::problem::Problem;
use super::sessions::{BrowserSession, CSRF, Sessions, cookie, cookie_name};
use super::tokens::{Token, TokenDigest, TokenFile};
use super::wrong_tokens::Failures;
use crate::control::Handle;
use crate::notice::{ClientNews, Notice};

/// The rights of a client. Each role may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// Read everything.
    Read,
    /// Also write tables and variables.
    State,
    /// Also change the policy.
    Admin,
}

impl Role {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::State => "state",
            Role::Admin => "admin",
        }
    }
}

/// Decides who may ask what.
#[derive(Debug)]
pub(super) struct Access {
    /// The tokens; `None` on the loopback interface without any.
    pub tokens: Option<TokenFile>,
    pub sessions: Sessions,
    /// Whether only the loopback interface is listened on.
    pub is_loopback: bool,
    /// Whether connections begin with TLS.
    pub has_tls: bool,
    pub failures: Failures,
    pub handle: Handle,
}

/// The client that sends a request.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// The name of its token.
    pub name: Arc<str>,
    pub role: Role,
    pub shows: Credential,
}

/// The credential that a client shows.
#[derive(Clone, Debug)]
pub(super) enum Credential {
    /// Nothing: there are no tokens.
    Nothing,
    /// A token.
    Token(TokenDigest),
    /// The cookie of a session.
    Session(Box<BrowserSession>),
}

impl Access {
    /// Checks that a client may load the page, which needs no token.
    ///
    /// # Errors
    /// [`Problem`] if it may not.
    pub fn admit_to_page(&self, headers: &HeaderMap) -> Result<(), Problem> {
        if self.is_loopback { check_host(headers) } else { Ok(()) }
    }

    /// Returns the client that sends a request, if it has the role.
    ///
    /// # Errors
    /// [`Problem`] if it may not.
    pub fn admit(&self, request: &Parts, peer: SocketAddr, needed: Role) -> Result<Client, Problem> {
        let client = self.client(request, peer)?;
        client.check(needed).map(|()| client)
    }

    /// Returns the client that sends a request.
    ///
    /// # Errors
    /// [`Problem`] if it is not known who that is, or the request comes from a page of another site.
    pub fn client(&self, request: &Parts, peer: SocketAddr) -> Result<Client, Problem> {
        self.check_site(request)?;
        let Some(tokens) = &self.tokens else {
            return Ok(Client { name: "anybody".into(), role: Role::Read, shows: Credential::Nothing });
        };
        if let Some(shown) = bearer(&request.headers) {
            let Token { digest, name, role } = self.token(tokens, shown, peer)?;
            return Ok(Client { name, role, shows: Credential::Token(digest) });
        }
        let secret = cookie(&self.cookie_name(), &request.headers);
        let secret = secret.ok_or_else(|| no_token("a token is needed: Authorization: Bearer TOKEN"))?;
        let found = self.session(tokens, secret);
        let (Token { name, role, .. }, session) = found.ok_or_else(|| no_token("the session has ended"))?;
        if !is_read(request) && !session.is_shown(&request.headers) {
            let text = format!("a request with a session's cookie shows the session's csrf in the header {CSRF}");
            return Err(Problem::field(StatusCode::FORBIDDEN, "X-CSRF-Token", text));
        }
        Ok(Client { name, role, shows: Credential::Session(Box::new(session)) })
    }

    /// Returns the name that the sender of a request has in the log: that of its token, whatever else is wrong with the
    /// request. No token has a name with spaces.
    pub fn name(&self, headers: &HeaderMap) -> Arc<str> {
        let Some(tokens) = &self.tokens else { return "anybody".into() };
        let token = match bearer(headers) {
            Some(shown) => tokens.find(shown, self.handle.operations().files()),
            None => cookie(&self.cookie_name(), headers)
                .and_then(|secret| self.session(tokens, secret))
                .map(|(token, _)| token),
        };
        token.map_or_else(|| "an unknown client".into(), |token| token.name)
    }

    /// Returns the session that a cookie names, with its token, if both are still good.
    fn session(&self, tokens: &TokenFile, secret: &str) -> Option<(Token, BrowserSession)> {
        let session = self.sessions.find(secret, Instant::now())?;
        Some((tokens.of_digest(&session.token, self.handle.operations().files())?, session))
    }

    /// Returns the name of the cookie of sessions.
    pub fn cookie_name(&self) -> String {
        cookie_name(self.handle.operations().http_address().map_or(0, |address| address.port()))
    }

    /// Begins a session for a token. Returns the client, and what its cookie has.
    ///
    /// # Errors
    /// [`Problem`] if there is no such token, or there are none at all.
    pub fn begin_session(&self, shown: &str, peer: SocketAddr) -> Result<(Client, String), Problem> {
        let Some(tokens) = &self.tokens else {
            let text = "this server has no tokens, so there are no sessions: --http-tokens";
            return Err(Problem::new(StatusCode::CONFLICT, text));
        };
        let Token { digest, name, role } = self.token(tokens, shown, peer)?;
        let now = Instant::now();
        let begun = self.sessions.begin(digest, now).ok();
        let found = begun.and_then(|secret| Some((self.sessions.find(&secret, now)?, secret)));
        let (session, secret) = found.ok_or_else(|| Problem::busy("the system gives no random bytes"))?;
        Ok((Client { name, role, shows: Credential::Session(Box::new(session)) }, secret))
    }

    /// Reports whether what a client has shown is good still.
    pub fn is_good(&self, client: &Client) -> bool {
        let is_token = |digest: &TokenDigest| {
            self.tokens
                .as_ref()
                .is_some_and(|tokens| tokens.of_digest(digest, self.handle.operations().files()).is_some())
        };
        match &client.shows {
            Credential::Nothing => true,
            Credential::Token(digest) => is_token(digest),
            Credential::Session(session) => self.sessions.has(session, Instant::now()) && is_token(&session.token),
        }
    }

    /// Checks that a request does not come from a page of another site.
    ///
    /// # Errors
    /// [`Problem`] if it does.
    pub fn check_site(&self, request: &Parts) -> Result<(), Problem> {
        if self.is_loopback {
            check_host(&request.headers)?;
        }
        check_origin(request)
    }

    /// Returns the token that a client shows.
    fn token(&self, tokens: &TokenFile, shown: &str, peer: SocketAddr) -> Result<Token, Problem> {
        // A right token is never locked out: others may send from the same address.
        if let Some(token) = tokens.find(shown, self.handle.operations().files()) {
            return Ok(token);
        }
        let now = Instant::now();
        if self.failures.is_locked_out(peer.ip(), now) {
            let text = "too many wrong tokens came from this address; wait a minute";
            let seconds = Failures::LOCKED_OUT.as_secs();
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, text).with(header::RETRY_AFTER, seconds.into()));
        }
        if self.failures.count(peer.ip(), now) {
            self.handle.publish(Notice::Client(ClientNews::LockedOut { peer: peer.ip() }));
        }
        Err(no_token("this token is not known"))
    }
}

impl Client {
    /// Checks that the client may do what this role may.
    ///
    /// # Errors
    /// [`Problem`] if it may not.
    pub fn check(&self, needed: Role) -> Result<(), Problem> {
        match &self.shows {
            _ if self.role >= needed => Ok(()),
            Credential::Nothing => Err(only_reads(needed)),
            Credential::Token(_) | Credential::Session(_) => {
                let text = format!("{} has the role {}, and this needs {}", self.name, self.role.name(), needed.name());
                Err(Problem::new(StatusCode::FORBIDDEN, text))
            }
        }
    }
}

fn only_reads(needed: Role) -> Problem {
    let text =
        format!("this server has no tokens, so it only reads; this needs the role {}: --http-tokens", needed.name());
    Problem::new(StatusCode::FORBIDDEN, text)
}

fn no_token(text: &str) -> Problem {
    let challenge = HeaderValue::from_static("Bearer realm=\"maple\"");
    Problem::new(StatusCode::UNAUTHORIZED, text).with(header::WWW_AUTHENTICATE, challenge)
}

/// Returns the token that a client shows.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Checks that a request was sent to an address of the loopback interface or to `localhost`, by its own account.
fn check_host(headers: &HeaderMap) -> Result<(), Problem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    if host.is_some_and(is_loopback) && hosts.next().is_none() {
        return Ok(());
    }
    let text = "the header Host has to be localhost or an address of the loopback interface, where this server listens";
    Err(Problem::field(StatusCode::MISDIRECTED_REQUEST, "Host", text))
}

/// Reports whether a host with an optional port is this machine.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, rest)) if rest.is_empty() || is_port(rest) => name,
            _ => return false,
        },
        None => match host.split_once(':') {
            Some((name, _)) if is_port(&host[name.len()..]) => name,
            Some(_) => return false,
            None => host,
        },
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Reports whether a request only reads, by its method.
fn is_read(request: &Parts) -> bool {
    matches!(request.method, Method::GET | Method::HEAD)
}

/// Checks that a request that may change something does not come from a page of another site.
fn check_origin(request: &Parts) -> Result<(), Problem> {
    if is_read(request) {
        return Ok(());
    }
    let text_of = |name: HeaderName| request.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text_of(header::HOST).unwrap_or_default();
    let is_own = |origin: &str| origin.split_once("://").is_some_and(|(_, of)| of.eq_ignore_ascii_case(host));
    let is_foreign = text_of(header::ORIGIN).is_some_and(|origin| !is_own(origin));
    let is_cross =
        text_of(HeaderName::from_static("sec-fetch-site")).is_some_and(|site| !matches!(site, "same-origin" | "none"));
    if is_foreign || is_cross {
        let text = "a page of another site sent this request, so it is refused";
        return Err(Problem::field(StatusCode::FORBIDDEN, "Origin", text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        for own in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.9.9.9:8653", "[::1]", "[::1]:8653"] {
            assert!(is_loopback(own), "{own}");
        }
        for other in [
            "",
            "evil.example",
            "localhost.evil.example:80",
            "10.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:80:80",
            "[::1]x",
            "[::1",
            "localhost:80@x",
            "::1",
        ] {
            assert!(!is_loopback(other), "{other}");
        }
    }
}
