//! The configuration of a client: servers, time limits, certificates, user and password.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::address::Endpoint;
use crate::error::FailureReason;

/// The way in which a client reaches etcd.
#[derive(Clone, Debug)]
pub struct Config {
    /// The servers, in the order in which they are tried first.
    pub endpoints: Vec<Endpoint>,
    /// The files for TLS. Without them connections are in the clear.
    pub tls: Option<TlsFiles>,
    /// User and password, if etcd asks for them. If etcd asks nobody, they are not used.
    pub credentials: Option<Credentials>,
    /// The limits.
    pub limits: Limits,
}

impl Config {
    /// Creates a configuration without TLS and password, with the default limits.
    pub fn new(endpoints: Vec<Endpoint>) -> Config {
        Config { endpoints, tls: None, credentials: None, limits: Limits::default() }
    }
}

/// The limits of a client.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum time until a connection, with TLS, is there.
    pub connect: Duration,
    /// The maximum time from a request until its whole answer.
    pub request: Duration,
    /// The time for which a watch is silent before its server is asked whether it is still there.
    pub silence: Duration,
    /// The maximum number of bytes of an answer, or of one line of a watch.
    pub answer: usize,
}

impl Limits {
    /// Returns how long one server is tried, with everything that a request needs: waiting for a token, asking for one,
    /// connecting, and asking again with a new token.
    pub(crate) fn attempt(&self) -> Duration {
        self.connect + self.request
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect: Duration::from_secs(2),
            request: Duration::from_secs(5),
            silence: Duration::from_secs(10),
            answer: 16 << 20,
        }
    }
}

/// A user of etcd with the password.
#[derive(Clone)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The password. It is never printed.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The files for TLS, all PEM. They are read for each new connection, so new certificates need no restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities whose servers are trusted.
    pub authorities: PathBuf,
    /// The client's certificate and its key, if etcd asks for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    /// Checks that the files can be used, as they are now.
    ///
    /// # Errors
    /// [`FailureReason::TlsFile`], which names the file.
    pub fn check(&self) -> Result<(), FailureReason> {
        self.read().map(drop)
    }

    /// Reads the files: what a client that connects now goes by.
    ///
    /// # Errors
    /// [`FailureReason::TlsFile`], which names the file.
    pub fn read(&self) -> Result<Arc<ClientConfig>, FailureReason> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(&self.authorities)? {
            roots.add(authority).map_err(|error| wrong(&self.authorities, error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&self.authorities, error))?
            .with_root_certificates(roots);
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(certificate)?;
                // The library's text may have a line of the key.
                let secret =
                    PrivateKeyDer::from_pem_file(key).map_err(|_| wrong(key, "no PEM private key can be read"))?;
                builder.with_client_auth_cert(chain, secret).map_err(|error| wrong(key, error))?
            }
        };
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FailureReason> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all.map_err(|error| wrong(path, error))? {
        all if all.is_empty() => Err(wrong(path, "there is no PEM certificate in it")),
        all => Ok(all),
    }
}

fn wrong(path: &Path, why: impl fmt::Display) -> FailureReason {
    FailureReason::TlsFile { file: path.to_owned(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_printed() {
        let credentials = Credentials { user: "maple".into(), password: "secret".into() };
        assert_eq!(format!("{credentials:?}"), "Credentials { user: \"maple\", .. }");
    }

    #[test]
    fn a_file_that_is_wrong_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (missing, empty) = (folder.path().join("missing"), folder.path().join("empty"));
        std::fs::write(&empty, "").unwrap();
        let error = |files: TlsFiles| files.check().unwrap_err().to_string();
        let text = error(TlsFiles { authorities: missing.clone(), identity: None });
        assert!(text.starts_with(&format!("{}: ", missing.display())), "{text}");
        let text = error(TlsFiles { authorities: empty.clone(), identity: None });
        assert_eq!(text, format!("{}: there is no PEM certificate in it", empty.display()));
    }
}
