//! Certificates, and switches that speak TLS: plain bytes in the test, TLS to the controller.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use maple_controller::tls::{Tls, TlsFiles};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use tempfile::TempDir;

/// An authority, with a folder for the certificates that it signs.
pub struct Authority {
    pub folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in files.
#[derive(Clone, Debug)]
pub struct Signed {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub serial: u64,
}

impl Authority {
    /// Creates an authority.
    pub fn new(name: &str) -> Authority {
        let folder = tempfile::tempdir().expect("a folder");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        fs::write(folder.path().join("ca.pem"), params.self_signed(&key).expect("it signs itself").pem())
            .expect("it is written");
        Authority { folder, issuer: Issuer::new(params, key) }
    }

    /// Returns the file of the certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Makes a certificate that is valid now.
    pub fn sign(&self, name: &str, serial: u64) -> Signed {
        self.sign_until(name, serial, 2999)
    }

    /// Makes a certificate that is valid until this year begins.
    pub fn sign_until(&self, name: &str, serial: u64, year: i32) -> Signed {
        self.sign_host(name, &format!("{name}.example"), serial, year)
    }

    /// Makes a certificate for a host's name or address that is valid until this year begins.
    pub fn sign_host(&self, name: &str, host: &str, serial: u64, year: i32) -> Signed {
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        params.serial_number = Some(SerialNumber::from(serial));
        let key = KeyPair::generate().expect("a key");
        let (certificate, file) =
            (self.folder.path().join(format!("{name}.pem")), self.folder.path().join(format!("{name}.key")));
        fs::write(&certificate, params.signed_by(&key, &self.issuer).expect("it is signed").pem()).expect("written");
        fs::write(&file, key.serialize_pem()).expect("it is written");
        Signed { certificate, key: file, serial }
    }

    /// Makes a list that revokes these certificates.
    pub fn revoke(&self, all: &[&Signed]) -> PathBuf {
        let revoked = |one: &&Signed| RevokedCertParams {
            serial_number: SerialNumber::from(one.serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2999, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: all.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let path = self.folder.path().join("revoked.pem");
        let signed = list.signed_by(&self.issuer).expect("it is signed");
        fs::write(&path, signed.pem().expect("it is PEM")).expect("it is written");
        path
    }

    /// Makes the files of a controller whose certificate this authority signs, as it does for switches.
    pub fn files(&self) -> TlsFiles {
        let own = self.sign("controller", 1);
        let mut files = TlsFiles::new(own.certificate, own.key);
        files.authorities = Some(self.file());
        files
    }

    /// Makes TLS with these files.
    pub fn tls(&self) -> Arc<Tls> {
        Arc::new(Tls::open(self.files()).expect("they are right"))
    }

    /// Makes the settings with which a switch with this certificate, or without one, begins TLS.
    pub fn client(&self, own: Option<&Signed>, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.file()).expect("a certificate")).expect("an authority");
        let builder = ClientConfig::builder_with_protocol_versions(versions).with_root_certificates(roots);
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let chain = vec![CertificateDer::from_pem_file(&own.certificate).expect("a certificate")];
                let key = PrivateKeyDer::from_pem_file(&own.key).expect("a key");
                builder.with_client_auth_cert(chain, key).expect("they belong together")
            }
        })
    }
}

/// Returns TLS 1.2 and 1.3.
pub fn versions() -> [&'static SupportedProtocolVersion; 2] {
    [&rustls::version::TLS12, &rustls::version::TLS13]
}

/// Begins a TLS session on this connection. The stream that it returns has plain bytes.
pub fn speak(tcp: TcpStream, config: &Arc<ClientConfig>) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("it listens")).expect("it listens");
    let far = listener.accept().expect("it was connected").0;
    near.set_nodelay(true).expect("it is open");
    far.set_nodelay(true).expect("it is open");
    let name = ServerName::try_from("controller.example").expect("a name");
    let session = ClientConnection::new(Arc::clone(config), name).expect("a session");
    let shared = Arc::new(Shared {
        session: Mutex::new(session),
        sending: Mutex::default(),
        progress: Condvar::new(),
        has_ended: AtomicBool::new(false),
    });
    let ends = |tcp: &TcpStream, far: &TcpStream| {
        (tcp.try_clone().expect("a descriptor"), far.try_clone().expect("a descriptor"), Arc::clone(&shared))
    };
    let (to_read, to_write) = (ends(&tcp, &far), ends(&tcp, &far));
    send(&tcp, &shared);
    std::thread::spawn(move || {
        let (mut tcp, mut far, shared) = to_read;
        let mut encrypted = [0; 16 * 1024];
        while let Ok(count @ 1..) = tcp.read(&mut encrypted) {
            let plain = decrypt(&shared, &encrypted[..count]);
            send(&tcp, &shared);
            shared.progress.notify_all();
            if plain.is_none_or(|plain| far.write_all(&plain).is_err()) {
                break;
            }
        }
        shared.has_ended.store(true, Ordering::SeqCst);
        shared.progress.notify_all();
        drop((far.shutdown(Shutdown::Both), tcp.shutdown(Shutdown::Both)));
    });
    std::thread::spawn(move || {
        let (tcp, mut far, shared) = to_write;
        let mut plain = [0; 16 * 1024];
        let mut session = shared.session.lock().expect("no panic");
        while session.is_handshaking() && !shared.has_ended.load(Ordering::SeqCst) {
            session = shared.progress.wait(session).expect("no panic");
        }
        drop(session);
        while let Ok(count @ 1..) = far.read(&mut plain) {
            let is_taken = shared.session.lock().expect("no panic").writer().write_all(&plain[..count]).is_ok();
            if !is_taken || !send(&tcp, &shared) {
                // The other thread may wait for a test that does not read.
                drop((far.shutdown(Shutdown::Both), tcp.shutdown(Shutdown::Both)));
                return;
            }
        }
        shared.session.lock().expect("no panic").send_close_notify();
        send(&tcp, &shared);
        drop(tcp.shutdown(Shutdown::Write));
    });
    near
}

/// The session, and a lock that is held while its records are sent: they must not overtake each other.
#[derive(Debug)]
struct Shared {
    session: Mutex<ClientConnection>,
    sending: Mutex<()>,
    progress: Condvar,
    has_ended: AtomicBool,
}

/// Sends what the session has to send. Returns whether the controller takes it.
fn send(mut tcp: &TcpStream, shared: &Shared) -> bool {
    if !shared.session.lock().expect("no panic").wants_write() {
        return true;
    }
    let _sending = shared.sending.lock().expect("no panic");
    let mut bytes = Vec::new();
    {
        let mut session = shared.session.lock().expect("no panic");
        while session.wants_write() {
            session.write_tls(&mut bytes).expect("memory takes all");
        }
    }
    tcp.write_all(&bytes).is_ok()
}

/// Decrypts bytes; `None` if the session has ended.
fn decrypt(shared: &Shared, mut bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut session, mut plain) = (shared.session.lock().expect("no panic"), Vec::new());
    while !bytes.is_empty() {
        session.read_tls(&mut bytes).ok()?;
        let state = session.process_new_packets().ok()?;
        let start = plain.len();
        plain.resize(start + state.plaintext_bytes_to_read(), 0);
        session.reader().read_exact(&mut plain[start..]).ok()?;
    }
    Some(plain)
}

/// Begins a TLS session on a new connection.
pub fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> TcpStream {
    speak(TcpStream::connect(address).expect("the controller accepts"), config)
}

/// Replaces the contents of a file by those of another.
pub fn replace(path: &Path, with: &Path) {
    fs::copy(with, path).expect("it is copied");
}
