//! TLS of the switches: their certificate, and the authorities that they trust.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::LoadError;

/// The version of TLS that switches speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TlsVersion {
    V12,
    V13,
}

/// The files of switches that connect with TLS. All certificates and keys are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that sign the controller's certificate. As in Open vSwitch, the name in it is ignored.
    pub authorities: PathBuf,
    /// The certificate of all switches and its private key, unless the controller requires none.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The TLS version; `None`: the newest that the controller speaks.
    pub version: Option<TlsVersion>,
}

impl TlsFiles {
    /// Reads the files into the configuration that all switches share.
    pub(crate) fn read(&self) -> Result<ClientConfig, LoadError> {
        let provider = Arc::new(ring::default_provider());
        let authorities = Arc::new(Authorities::read(&self.authorities, &provider)?);
        let versions = match self.version {
            Some(TlsVersion::V12) => &[&TLS12][..],
            Some(TlsVersion::V13) => &[&TLS13][..],
            None => &[&TLS13, &TLS12][..],
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|error| unfit(&self.authorities, error))?
            .dangerous()
            .with_custom_certificate_verifier(authorities);
        let Some((file, key)) = &self.certificate else { return Ok(config.with_no_client_auth()) };
        let chain = certificates(file)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unfit(key, error))?;
        config.with_client_auth_cert(chain, private).map_err(|error| unfit(file, error))
    }
}

/// Creates a TLS session of one switch, which resumes the last one with the same configuration if possible.
pub(crate) fn session(config: &Arc<ClientConfig>) -> Result<ClientConnection, rustls::Error> {
    // No name is sent or checked.
    ClientConnection::new(Arc::clone(config), ServerName::from(IpAddr::from(Ipv4Addr::LOCALHOST)))
}

/// Creates the configuration of one switch, which remembers its own sessions.
pub(crate) fn of_one_switch(config: &ClientConfig) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.resumption = Resumption::in_memory_sessions(1);
    Arc::new(config)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let all = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|error| unfit(file, error))?;
    if all.is_empty() { Err(unfit(file, "it has no certificate")) } else { Ok(all) }
}

fn unfit(file: &Path, error: impl Display) -> LoadError {
    LoadError::Tls { file: file.to_owned(), why: error.to_string() }
}

/// Accepts certificates that these authorities have signed, whatever the name in them.
#[derive(Debug)]
struct Authorities {
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Authorities {
    fn read(file: &Path, provider: &CryptoProvider) -> Result<Authorities, LoadError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| unfit(file, error))?;
        }
        Ok(Authorities { roots, algorithms: provider.signature_verification_algorithms })
    }
}

impl ServerCertVerifier for Authorities {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
