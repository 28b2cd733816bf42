//! The identity of a certificate's owner.

use std::fmt;

use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Name, X509Version};

use crate::printable::printable;

/// The facts that a certificate states about its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The SHA-256 of the whole certificate, in hex.
    pub fingerprint: String,
    /// The subject: `C=US, O=Open vSwitch, CN=…`.
    pub subject: String,
    /// Its attributes, each as `CN=…`.
    pub attributes: Vec<String>,
    /// The subject alternative names, and the common names of the subject.
    pub names: Vec<String>,
    /// The last second of its validity, in seconds since 1970.
    pub not_after: u64,
}

impl Identity {
    /// Reads a certificate.
    ///
    /// # Errors
    /// A text if it is not a certificate.
    pub fn from_certificate(certificate: &CertificateDer<'_>) -> Result<Identity, String> {
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|error| format!("not a certificate: {error}"))?;
        let common = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        let mut names: Vec<String> = common.map(str::to_owned).collect();
        if let Ok(Some(alternatives)) = parsed.subject_alternative_name() {
            names.extend(alternatives.value.general_names.iter().filter_map(name_of));
        }
        Ok(Identity {
            fingerprint: hex::encode(digest(&SHA256, certificate)),
            subject: parsed.subject().to_string(),
            attributes: parsed
                .subject()
                .iter_rdn()
                .map(|rdn| X509Name::new(vec![rdn.clone()], &[]).to_string())
                .collect(),
            names,
            not_after: u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0),
        })
    }
}

/// Formats for messages: nothing in the text can control a terminal.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (sha256:{})", printable(&self.subject), self.fingerprint)
    }
}

fn name_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(text) | GeneralName::RFC822Name(text) | GeneralName::URI(text) => Some((*text).to_owned()),
        GeneralName::IPAddress(bytes) => match <[u8; 4]>::try_from(*bytes) {
            Ok(bytes) => Some(std::net::Ipv4Addr::from(bytes).to_string()),
            Err(_) => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
        },
        _ => None,
    }
}

/// Reports whether this is a certificate of X.509 version 1.
pub(super) fn is_first_version(certificate: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| parsed.version() == X509Version::V1)
}
