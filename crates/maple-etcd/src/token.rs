//! Tokens, which show a server who asks.

use hyper::header::HeaderValue;
use parking_lot::{Mutex, MutexGuard};

/// A token for all servers: each knows what another one gave out.
#[derive(Debug)]
pub(crate) struct Tokens {
    token: Mutex<Token>,
    /// Held while a server is asked for a token: one question is enough. Who waits for a silent server keeps nobody
    /// from another one.
    asking: Vec<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
enum Token {
    Unknown,
    /// etcd asks nobody who it is.
    Needless,
    Known(HeaderValue),
}

impl Tokens {
    /// Creates the tokens of this number of servers: none so far.
    pub(crate) fn new(servers: usize) -> Tokens {
        Tokens { token: Mutex::new(Token::Unknown), asking: (0..servers).map(|_| Default::default()).collect() }
    }

    fn lock(&self) -> MutexGuard<'_, Token> {
        self.token.lock()
    }

    /// Returns the token, if there is one.
    pub(crate) fn kept(&self) -> Option<HeaderValue> {
        match &*self.lock() {
            Token::Known(token) => Some(token.clone()),
            Token::Unknown | Token::Needless => None,
        }
    }

    /// Reports whether nobody knows yet whether a token is needed, or the one that there was is no longer good.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(*self.lock(), Token::Unknown)
    }

    /// Keeps a token; `None` means that etcd asks nobody who it is.
    pub(crate) fn keep(&self, token: Option<HeaderValue>) {
        *self.lock() = token.map_or(Token::Needless, Token::Known);
    }

    /// Forgets what was used, unless there is something newer.
    pub(crate) fn forget(&self, used: Option<&HeaderValue>) {
        let mut token = self.lock();
        let is_used = match &*token {
            Token::Known(known) => Some(known) == used,
            Token::Needless => used.is_none(),
            Token::Unknown => false,
        };
        if is_used {
            *token = Token::Unknown;
        }
    }

    /// Waits until nobody else asks this server for a token.
    pub(crate) async fn asking(&self, at: usize) -> tokio::sync::MutexGuard<'_, ()> {
        self.asking[at].lock().await
    }
}
