//! The file of tokens: a line for each, with its role and the name of its holder.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use subtle::ConstantTimeEq as _;

use super::access::Role;
use crate::kept_files::{KeptFile, KeptFiles};

/// The minimum length of a token, in characters. Chosen: one of this length made of random letters and digits is never
/// guessed.
const LEAST: usize = 16;
/// The minimum time between two checks whether the file has changed. Chosen: a token that is withdrawn counts no longer
/// than a second, and a check costs a look at the file.
const CHECK: Duration = Duration::from_secs(1);

/// The reason why a file of tokens can't be used. The text has nothing of a token.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// The file can't be read.
    #[error("can't read {0}: {1}")]
    Read(PathBuf, io::Error),
    /// Other users can read the file.
    #[error("{0} is open to all users of this machine (mode {1:03o}): chmod o= {0}")]
    IsOpen(PathBuf, u32),
    /// A line is wrong.
    #[error("{path}, line {line}: {text}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line.
        line: usize,
        /// The mistake.
        text: String,
    },
    /// The file has no token.
    #[error("{0} has no token; a line is ROLE NAME TOKEN")]
    Empty(PathBuf),
}

/// The SHA-256 of a token.
pub(super) type TokenDigest = [u8; SHA256_OUTPUT_LEN];

/// A token, by its digest.
#[derive(Clone)]
pub(super) struct Token {
    pub digest: TokenDigest,
    /// The name of its holder.
    pub name: Arc<str>,
    pub role: Role,
}

/// A file of tokens, which is read again when it changes.
pub(super) struct TokenFile {
    path: PathBuf,
    read: Mutex<LastRead>,
}

struct LastRead {
    tokens: Vec<Token>,
    /// The file as it was then.
    seen: Option<FileMark>,
    /// Whether the file could not be read, or was wrong, when this was last tried.
    has_failed: bool,
    checked: Instant,
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl TokenFile {
    /// Reads the file.
    ///
    /// # Errors
    /// [`TokensError`] if it is wrong.
    pub fn open(path: &Path) -> Result<TokenFile, TokensError> {
        let seen = FileMark::of(path);
        let read = LastRead { tokens: read(path)?, seen, has_failed: false, checked: Instant::now() };
        Ok(TokenFile { path: path.to_owned(), read: Mutex::new(read) })
    }

    /// Returns the token that a client shows.
    pub fn find(&self, shown: &str, files: &KeptFiles) -> Option<Token> {
        self.of_digest(&digest_of(shown), files)
    }

    /// Returns the token with this digest. All tokens are compared, each in the same time.
    pub fn of_digest(&self, digest: &TokenDigest, files: &KeptFiles) -> Option<Token> {
        let mut read = self.read.lock();
        read.follow(&self.path, files);
        let has_digest = |token: &Token| bool::from(token.digest.ct_eq(digest));
        read.tokens.iter().fold(None, |found, token| if has_digest(token) { Some(token.clone()) } else { found })
    }
}

impl LastRead {
    /// Reads the file again if it has changed. If it is wrong then, the tokens stay as they were.
    fn follow(&mut self, path: &Path, files: &KeptFiles) {
        if self.checked.elapsed() < CHECK {
            return;
        }
        self.checked = Instant::now();
        let now = FileMark::of(path);
        // What mends a file that can't be read may be done to another one: its folder.
        if now == self.seen && !self.has_failed {
            return;
        }
        self.seen = now;
        match read(path) {
            Ok(tokens) => {
                (self.tokens, self.has_failed) = (tokens, false);
                files.mended(KeptFile::Tokens, "");
            }
            Err(error) => {
                self.has_failed = true;
                files.fails(KeptFile::Tokens, path, error.to_string());
            }
        }
    }
}

fn digest_of(token: &str) -> TokenDigest {
    let mut bytes = [0; SHA256_OUTPUT_LEN];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

/// The properties of a file that differ when it was written, put in place of another one, or given to others to read.
#[derive(PartialEq, Eq)]
struct FileMark {
    inode: u64,
    changed: (i64, i64),
}

impl FileMark {
    /// Returns the mark of a file; `None` if there is none, or it can't be looked at.
    fn of(path: &Path) -> Option<FileMark> {
        let about = std::fs::metadata(path).ok()?;
        Some(FileMark { inode: about.ino(), changed: (about.ctime(), about.ctime_nsec()) })
    }
}

fn read(path: &Path) -> Result<Vec<Token>, TokensError> {
    let unreadable = |error| TokensError::Read(path.to_owned(), error);
    let mode = std::fs::metadata(path).map_err(unreadable)?.mode();
    if mode & 0o007 != 0 {
        return Err(TokensError::IsOpen(path.to_owned(), mode & 0o777));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let mut tokens: Vec<Token> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() || words[0].starts_with('#') {
            continue;
        }
        let wrong = |text| TokensError::Line { path: path.to_owned(), line: index + 1, text };
        let token = parse(&words).map_err(wrong)?;
        if tokens.iter().any(|other| other.name == token.name || other.digest == token.digest) {
            return Err(wrong(format!("{} or the same token is there already", token.name)));
        }
        tokens.push(token);
    }
    if tokens.is_empty() { Err(TokensError::Empty(path.to_owned())) } else { Ok(tokens) }
}

/// Parses the words of a line.
fn parse(words: &[&str]) -> Result<Token, String> {
    let [role, name, token] = words else {
        return Err(format!("a line is ROLE NAME TOKEN, three words, not {}", words.len()));
    };
    let role = [Role::Read, Role::State, Role::Admin].into_iter().find(|known| known.name() == *role);
    let role = role.ok_or_else(|| format!("the role is read, state or admin, not {:?}", words[0]))?;
    let digest = match token.strip_prefix("sha256:") {
        Some(digits) => {
            let bytes = hex::decode(digits).ok().and_then(|bytes| bytes.try_into().ok());
            bytes.ok_or("after sha256: there are the 64 hex digits of the token's SHA-256")?
        }
        None if token.len() < LEAST => return Err(format!("a token has at least {LEAST} characters")),
        None => digest_of(token),
    };
    Ok(Token { digest, name: (*name).into(), role })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::notice::Notice;

    fn opened(text: &str, mode: u32) -> Result<TokenFile, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokens");
        std::fs::write(&path, text).expect("it is written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
        TokenFile::open(&path).map_err(|error| error.to_string().replace(&path.display().to_string(), "FILE"))
    }

    #[test]
    fn a_token_or_its_digest_says_who_comes_and_what_that_one_may() {
        let digest = hex::encode(digest(&SHA256, b"another-long-token"));
        let text = format!("# tokens\nread grafana a-token-that-is-long\n\nadmin ann sha256:{digest}\n");
        let file = opened(&text, 0o600).expect("it is right");
        let find =
            |shown: &str| file.find(shown, &KeptFiles::default()).map(|token| (token.name.to_string(), token.role));
        assert_eq!(find("a-token-that-is-long"), Some(("grafana".to_owned(), Role::Read)));
        assert_eq!(find("another-long-token"), Some(("ann".to_owned(), Role::Admin)));
        for wrong in ["", "a-token-that-is-lonG", "a-token-that-is-long ", &digest, &format!("sha256:{digest}")] {
            assert_eq!(find(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn mistakes_in_a_token_file_are_reported_without_a_token() {
        let long = "a-token-that-is-long";
        for (text, mode, why) in [
            ("", 0o600, "FILE has no token; a line is ROLE NAME TOKEN".to_owned()),
            (
                &*format!("read x {long}"),
                0o604,
                "FILE is open to all users of this machine (mode 604): chmod o= FILE".into(),
            ),
            ("\nread x", 0o600, "FILE, line 2: a line is ROLE NAME TOKEN, three words, not 2".into()),
            (&format!("root x {long}"), 0o600, "FILE, line 1: the role is read, state or admin, not \"root\"".into()),
            ("read x short", 0o600, "FILE, line 1: a token has at least 16 characters".into()),
            (
                "read x sha256:00",
                0o600,
                "FILE, line 1: after sha256: there are the 64 hex digits of the token's SHA-256".into(),
            ),
            (
                &format!("read x {long}\nadmin y {long}"),
                0o600,
                "FILE, line 2: y or the same token is there already".into(),
            ),
        ] {
            assert_eq!(opened(text, mode).err(), Some(why));
        }
    }

    #[test]
    fn a_file_that_others_may_read_from_now_on_is_reported_and_its_tokens_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokens");
        let allow = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
        std::fs::write(&path, "read x a-token-that-is-long").expect("it is written");
        allow(0o600);
        let (file, files) = (TokenFile::open(&path).expect("it is right"), KeptFiles::default());
        let finds = || {
            let before = Instant::now().checked_sub(2 * CHECK).expect("the machine runs for longer");
            file.read.lock().checked = before;
            file.find("a-token-that-is-long", &files).is_some()
        };
        assert!(finds() && files.troubles().is_empty());
        // A file's times have the clock of the kernel's ticks.
        let before = FileMark::of(&path);
        while FileMark::of(&path) == before {
            allow(0o604);
        }
        assert!(finds(), "who has a token keeps it");
        let reported: Vec<String> =
            files.troubles().into_iter().map(|(_, news)| Notice::File(news).to_string()).collect();
        assert!(reported.len() == 1 && reported[0].contains("is open to all users"), "{reported:?}");
        allow(0o600);
        assert!(finds() && files.troubles().is_empty());
    }
}
