//! Certificates for tests.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use tempfile::TempDir;

/// An authority, with a folder for the certificates that it signs.
pub struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Authority {
        let folder = tempfile::tempdir().expect("a folder");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("it signs itself").pem();
        std::fs::write(folder.path().join("ca.pem"), certificate).expect("it is written");
        Authority { folder, issuer: Issuer::new(params, key) }
    }

    pub fn file(&self) -> PathBuf {
        self.path("ca.pem")
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name)
    }

    /// Makes a certificate for this address, and its key.
    pub fn sign(&self, name: &str, address: Ipv4Addr) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec![address.to_string()]).expect("an address");
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2999, 1, 1);
        // The server's gateway shows it to the server.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let files = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        std::fs::write(&files.0, params.signed_by(&key, &self.issuer).expect("it is signed").pem()).expect("written");
        std::fs::write(&files.1, key.serialize_pem()).expect("written");
        files
    }

    /// Makes a certificate for a server. Returns the arguments by which it shows it, and asks clients for one.
    pub fn arguments(&self, number: usize, address: Ipv4Addr) -> Vec<String> {
        let (certificate, key) = self.sign(&format!("server{number}"), address);
        vec![
            format!("--cert-file={}", certificate.display()),
            format!("--key-file={}", key.display()),
            format!("--trusted-ca-file={}", self.file().display()),
            "--client-cert-auth".into(),
        ]
    }
}
