//! TLS on the OpenFlow channel.
//!
//! # What
//!
//! A controller may listen with TLS 1.2 and 1.3. A switch shows a certificate that one of the controller's authorities
//! has signed. A file may say which certificate may be which switch (`switch_certificates.rs`). All files are read
//! again when one changes. No session ends then: a session keeps the certificates that it began with.
//!
//! Names in certificates mean nothing by themselves. Those of `ovs-pki` are not valid DNS names.
//!
//! # Resumption
//!
//! A switch may resume a session by a ticket, without signatures. The ticket holds its certificate, which is checked
//! again: whether it has expired, and whether it may be this switch. A ticket is good until files are read again, so a
//! new revocation list or authority holds for all sessions that begin after it.
//!
//! # Bounds
//!
//! A handshake has the time that a session's handshake has, and a shard works at a few in each turn
//! (`shard/due_connections.rs`). Renegotiation, which costs the controller more than the switch, does not exist here.
//!
//! OpenFlow 1.3.5, section 6.3.3; RFC 5246, RFC 8446; RFC 5077 for tickets.

mod identity;
mod pins;
mod switch_certificates;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use maple_wire::Dpid;
use parking_lot::{Mutex, MutexGuard};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    AlertDescription, CertificateError, DigitallySignedStruct, DistinguishedName, InvalidMessage, RootCertStore,
    ServerConfig, SignatureScheme,
};

use crate::kept_files::{KeptFile, KeptFiles};
pub(crate) use identity::Identity;
use pins::{Pins, PinsWriter};
use switch_certificates::SwitchCertificates;
pub use switch_certificates::{NotThisSwitch, SwitchesError};

/// The files of a controller that listens with TLS. All certificates and keys are PEM.
///
/// ```
/// use maple_controller::tls::TlsFiles;
///
/// let mut files = TlsFiles::new("/etc/maple/cert.pem", "/etc/maple/key.pem");
/// files.authorities = Some("/etc/maple/switchca.pem".into());
/// ```
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The controller's certificate, and those that link it to an authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities that sign the certificates of switches. `None`: switches need no certificate, and anything that
    /// reaches the port may be any switch.
    pub authorities: Option<PathBuf>,
    /// Lists of revoked certificates. If there are any, each certificate has to be of an authority that has one.
    pub revoked: Vec<PathBuf>,
    /// The file that says which certificate may be which switch (see [`Tls`]). `None`: each may be any.
    pub switches: Option<PathBuf>,
    /// Further bindings besides that file: datapath ids, each with a certificate as in a line of the file.
    pub declared: Vec<(Dpid, String)>,
    /// Whether a switch that is not in that file is added with the first certificate that claims to be it.
    pub trusts_first_use: bool,
}

impl TlsFiles {
    /// Creates options with a certificate and its key, and nothing else.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> TlsFiles {
        let (certificate, key) = (certificate.into(), key.into());
        TlsFiles {
            certificate,
            key,
            authorities: None,
            revoked: Vec::new(),
            switches: None,
            declared: Vec::new(),
            trusts_first_use: false,
        }
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.certificate, &self.key]
            .into_iter()
            .chain(&self.authorities)
            .chain(&self.revoked)
            .chain(self.switches.as_ref().filter(|_| !self.trusts_first_use))
    }
}

/// The error in the files of [`Tls`]. The text never has anything of a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file can't be read.
    #[error("can't read {0}: {1}")]
    Read(PathBuf, io::Error),
    /// The file's content is invalid.
    #[error("{0}: {1}")]
    Content(PathBuf, String),
    /// The private key belongs to another certificate.
    #[error("the key in {key} does not belong to the certificate in {certificate}")]
    OtherKey {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        certificate: PathBuf,
    },
    /// The file of switches is wrong, or the certificate of a declared switch is.
    #[error(transparent)]
    Switches(#[from] SwitchesError),
    /// Some files need certificates of switches, and there are no authorities for those.
    #[error("{0} needs the authorities that sign the certificates of switches")]
    NeedsAuthorities(&'static str),
    /// Trust on first use has no file to write to.
    #[error("trust on first use needs a file of switches, to which it adds those that it trusts")]
    NeedsSwitches,
    /// The system gives no random numbers.
    #[error("no random numbers: {0}")]
    Random(rustls::Error),
    /// The system refuses a thread.
    #[error("can't start the thread that writes the file of switches: {0}")]
    Thread(io::Error),
}

/// TLS for a controller's listening addresses ([`crate::OpenFlowOptions::tls`]).
///
/// # The file of switches
///
/// Each line is for a certificate: datapath ids, in hex, with commas and ranges; and a description of the certificate,
/// which is the rest of the line. Empty lines and those that begin with `#` are ignored.
///
/// ```text
/// # datapath ids   certificate
/// 1,2,a-f          subject:C=US, ST=CA, O=Open vSwitch, OU=Open vSwitch certifier, CN=sc id:a7e870d4-471e
/// 10               name:switch10.example.org
/// 00000000000000ff sha256:9b6e5f…
/// ```
///
/// `name` is a subject alternative name or the subject's common name. A datapath id that the file names may only be
/// used with a certificate that one of its lines describes. Others may not be used at all, or belong to the first
/// certificate that comes ([`TlsFiles::trusts_first_use`]).
#[derive(Debug)]
pub struct Tls {
    files: Mutex<TlsFiles>,
    config: ArcSwap<ServerConfig>,
    switches: Mutex<Option<SwitchCertificates>>,
    read: Mutex<FileTimes>,
    /// The lines that trust on first use adds to the file of switches, and the thread that writes them.
    pins: Option<(Arc<Pins>, PinsWriter)>,
    /// The list of files to which failures to read are reported.
    kept: OnceLock<KeptFiles>,
}

/// The times of the files that were read last, and the second since 1970 when the controller's certificate expires.
#[derive(Debug)]
struct FileTimes {
    newest: Vec<Option<SystemTime>>,
    not_after: u64,
    /// Whether the files could not be read, or were wrong, when this was last tried.
    has_failed: bool,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn open(files: TlsFiles) -> Result<Tls, TlsError> {
        let pins = files.switches.as_deref().filter(|_| files.trusts_first_use).map(Pins::new);
        let newest = times(&files);
        let (config, not_after, switches) = Tls::parts(&files, pins.as_ref())?;
        let start = |pins: Arc<Pins>| Ok((Arc::clone(&pins), pins.start()?));
        Ok(Tls {
            config: ArcSwap::from_pointee(config),
            switches: Mutex::new(switches),
            read: Mutex::new(FileTimes { newest, not_after, has_failed: false }),
            files: Mutex::new(files),
            pins: pins.map(start).transpose().map_err(TlsError::Thread)?,
            kept: OnceLock::new(),
        })
    }

    /// Reads the files: the settings, the second when the certificate expires, and the bindings of certificates.
    fn parts(
        files: &TlsFiles,
        pins: Option<&Arc<Pins>>,
    ) -> Result<(ServerConfig, u64, Option<SwitchCertificates>), TlsError> {
        if files.authorities.is_none() {
            let needing = [
                ("a file of switches", files.switches.is_some()),
                ("a switch with a certificate", !files.declared.is_empty()),
                ("revocation", !files.revoked.is_empty()),
            ];
            if let Some((what, _)) = needing.into_iter().find(|(_, is_there)| *is_there) {
                return Err(TlsError::NeedsAuthorities(what));
            }
        }
        if files.trusts_first_use && files.switches.is_none() {
            return Err(TlsError::NeedsSwitches);
        }
        let (config, not_after) = config(files)?;
        let switches = SwitchCertificates::read(files.switches.as_deref(), &files.declared, pins)?;
        Ok((config, not_after, switches))
    }

    /// Starts to report to `kept` whether files can be read and written.
    pub(crate) fn report_to(&self, kept: &KeptFiles) {
        kept.keep(KeptFile::Certificates, &lock(&self.files).certificate);
        self.pins.iter().for_each(|(pins, _)| pins.report_to(kept));
        // There is one controller.
        let _ = self.kept.set(kept.clone());
    }

    /// Reads all files again. Sessions go on as they began. If anything is wrong, nothing changes.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.read_again(&lock(&self.files).clone())
    }

    /// Reads all files again, with these certificates of switches besides the file of switches. If anything is wrong,
    /// nothing changes.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn bind(&self, declared: Vec<(Dpid, String)>) -> Result<(), TlsError> {
        let files = TlsFiles { declared, ..lock(&self.files).clone() };
        self.read_again(&files)?;
        *lock(&self.files) = files;
        Ok(())
    }

    fn read_again(&self, files: &TlsFiles) -> Result<(), TlsError> {
        let newest = times(files);
        // The same error is not reported again before files change again.
        lock(&self.read).newest.clone_from(&newest);
        // The lock is held meanwhile, so that no switch is added that would be forgotten.
        let mut switches = lock(&self.switches);
        let parts = Tls::parts(files, self.pins.as_ref().map(|(pins, _)| pins));
        lock(&self.read).has_failed = parts.is_err();
        if let Some(kept) = self.kept.get() {
            match &parts {
                Ok(_) => kept.mended(KeptFile::Certificates, ""),
                Err(error) => kept.fails(KeptFile::Certificates, &files.certificate, error.to_string()),
            }
        }
        let (config, not_after, fresh) = parts?;
        *switches = fresh;
        self.config.store(Arc::new(config));
        lock(&self.read).not_after = not_after;
        Ok(())
    }

    /// Reads all files again if one has changed since they were read last, or if that failed. Returns whether they were
    /// read.
    ///
    /// # Errors
    /// [`TlsError`] if files that have changed are wrong, once for each change.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let (is_same, has_failed) = {
            let read = lock(&self.read);
            (read.newest == times(&lock(&self.files)), read.has_failed)
        };
        if is_same {
            // The system may have refused to read them only for a moment.
            return Ok(has_failed && self.reload().is_ok());
        }
        self.reload().map(|()| true)
    }

    /// Returns when the controller's certificate expires.
    pub fn expires(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(lock(&self.read).not_after)
    }

    /// Returns the settings for sessions that begin.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// Checks that a peer without TLS may be this switch, because no certificate is bound to it.
    ///
    /// # Errors
    /// [`NotThisSwitch::NoCertificate`] if one is bound.
    pub(crate) fn admit_plain(&self, dpid: Dpid) -> Result<(), NotThisSwitch> {
        let is_bound = lock(&self.switches).as_ref().is_some_and(|switches| switches.has(dpid));
        if is_bound { Err(NotThisSwitch::NoCertificate { dpid }) } else { Ok(()) }
    }

    /// Checks that a peer with this certificate may be this switch.
    ///
    /// # Errors
    /// [`NotThisSwitch`] if the certificate has expired, is missing, or is not bound to the switch.
    pub(crate) fn admit(&self, identity: Option<&Identity>, dpid: Dpid) -> Result<(), NotThisSwitch> {
        if let Some(identity) = identity
            && identity.not_after < seconds_now()
        {
            return Err(NotThisSwitch::Expired { dpid, certificate: identity.to_string() });
        }
        match (&mut *lock(&self.switches), identity) {
            (Some(switches), Some(identity)) => switches.admit(identity, dpid),
            (Some(_), None) => Err(NotThisSwitch::NoCertificate { dpid }),
            (None, _) => Ok(()),
        }
    }
}

/// The time before a certificate's expiry from which warnings come. Chosen: programs that renew certificates do so a
/// month before, so a warning says that they do not work.
pub const WARN_BEFORE: Duration = Duration::from_secs(30 * 86_400);

/// Returns the earliest expiry of the certificates in a PEM file.
///
/// # Errors
/// [`TlsError`] if the file can't be read, or is not such a file.
pub fn expiry(file: &Path) -> Result<SystemTime, TlsError> {
    let all: Vec<CertificateDer<'static>> = pems(file, "certificate")?;
    let end = |certificate| Identity::from_certificate(certificate).map(|identity| identity.not_after);
    let ends = all.iter().map(end).collect::<Result<Vec<_>, _>>();
    let ends = ends.map_err(|error| TlsError::Content(file.to_owned(), error))?;
    Ok(UNIX_EPOCH + Duration::from_secs(ends.into_iter().min().unwrap_or_default()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns when each file was changed last.
fn times(files: &TlsFiles) -> Vec<Option<SystemTime>> {
    files.all().map(|file| std::fs::metadata(file).and_then(|data| data.modified()).ok()).collect()
}

/// Makes the settings. Also returns the second since 1970 when the certificate expires.
fn config(files: &TlsFiles) -> Result<(ServerConfig, u64), TlsError> {
    let content = |path: &Path, what: String| TlsError::Content(path.to_owned(), what);
    let chain: Vec<CertificateDer<'static>> = pems(&files.certificate, "certificate")?;
    let own = Identity::from_certificate(&chain[0]).map_err(|error| content(&files.certificate, error))?;
    if identity::is_first_version(&chain[0]) {
        return Err(content(&files.certificate, FIRST_VERSION.into()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| pem_error(&files.key, "private key", error))?;
    let provider = Arc::new(provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Random)?;
    let builder = match &files.authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in pems::<CertificateDer<'static>>(path, "certificate")? {
                roots.add(authority).map_err(|error| content(path, error_in_words(&error)))?;
            }
            let mut lists = Vec::new();
            for path in &files.revoked {
                lists.extend(pems::<CertificateRevocationListDer<'static>>(path, "revocation list")?);
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.with_crls(lists).only_check_end_entity_revocation().build();
            // Only revocation lists can be wrong here.
            let place = files.revoked.first().unwrap_or(path);
            builder.with_client_cert_verifier(Arc::new(Verifier(verifier.map_err(|e| content(place, e.to_string()))?)))
        }
    };
    let config = builder.with_single_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::OtherKey { key: files.key.clone(), certificate: files.certificate.clone() }
        }
        // Whatever is wrong with a key, the text says nothing of it.
        error => content(&files.key, format!("not a key that can be used: {error}")),
    });
    let mut config = config?;
    config.ignore_client_order = true;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = ring::Ticketer::new().map_err(TlsError::Random)?;
    config.send_tls13_tickets = 1;
    Ok((config, own.not_after))
}

/// Returns the ciphers, best first. AES-GCM ends a session of TLS 1.2 after 2^24 records, which ChaCha20 does not. The
/// shorter key of AES is safe, and takes less time.
fn provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        let is_old = suite.version() == &rustls::version::TLS12;
        let name = format!("{:?}", suite.suite());
        (is_old, is_old && !name.contains("CHACHA20"), name.contains("AES_256"))
    });
    provider
}

/// Reads all objects of a kind in a file. Fails if there is none.
fn pems<T: PemObject>(path: &Path, what: &str) -> Result<Vec<T>, TlsError> {
    let all = T::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<T>, _>>);
    match all.map_err(|error| pem_error(path, what, error))? {
        all if all.is_empty() => Err(pem_error(path, what, pem::Error::NoItemsFound)),
        all => Ok(all),
    }
}

fn pem_error(path: &Path, what: &str, error: pem::Error) -> TlsError {
    match error {
        pem::Error::Io(error) => TlsError::Read(path.to_owned(), error),
        pem::Error::NoItemsFound => TlsError::Content(path.to_owned(), format!("there is no PEM {what} in it")),
        // The library's text has the line, which may be all of a key.
        _ => TlsError::Content(path.to_owned(), format!("not a PEM {what}: its lines are not as they should be")),
    }
}

/// Verifies certificates. A certificate of a version without extensions gets an error that says so.
#[derive(Debug)]
struct Verifier(Arc<dyn ClientCertVerifier>);

/// The error for a certificate that OpenSSL makes without a configuration.
const FIRST_VERSION: &str = "its certificate is one of X.509 version 1, which can't say that it is not an authority; make one of \
                             version 3, as ovs-pki does";

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        if identity::is_first_version(end_entity) {
            return Err(rustls::Error::General(FIRST_VERSION.into()));
        }
        self.0.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Returns why a TLS session ended, in words for operators.
pub(crate) fn error_in_words(error: &rustls::Error) -> String {
    use rustls::Error;
    let text = match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => "the switch does not speak TLS",
        Error::NoCertificatesPresented => "the switch showed no certificate",
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => "no known authority has signed its certificate",
        Error::InvalidCertificate(CertificateError::BadSignature) => {
            "no known authority has signed its certificate; one of the same name has another key"
        }
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "its certificate has expired"
        }
        Error::InvalidCertificate(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
            "its certificate is not valid yet"
        }
        Error::InvalidCertificate(CertificateError::Revoked) => "its certificate was revoked",
        Error::InvalidCertificate(CertificateError::UnknownRevocationStatus) => {
            "there is no revocation list of the authority that signed its certificate"
        }
        Error::AlertReceived(AlertDescription::UnknownCA) => {
            "the switch knows no authority that signed the controller's certificate"
        }
        Error::General(text) => return text.clone(),
        error => return error.to_string(),
    };
    text.into()
}
