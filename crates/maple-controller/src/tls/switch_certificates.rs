//! Which certificate may be which switch: the file of switches, and trust on first use.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use maple_wire::Dpid;

use super::Identity;
use super::pins::Pins;

/// The error in a file of switches.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchesError {
    /// The file can't be read.
    #[error("can't read {0}: {1}")]
    Read(PathBuf, io::Error),
    /// The file can't be written, which trust on first use needs.
    #[error("can't write {0}: {1}")]
    Write(PathBuf, io::Error),
    /// The certificate of a declared switch is wrong.
    #[error("switch {0}: {1}")]
    Declared(Dpid, String),
    /// A line is wrong.
    #[error("{}:{line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The fault of the line.
        what: String,
    },
}

/// The reason why a peer may not be the switch that it claims to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotThisSwitch {
    /// The datapath id belongs to another certificate.
    #[error("datapath id {dpid} belongs to another certificate than {certificate}")]
    OtherCertificate {
        /// The datapath id.
        dpid: Dpid,
        /// The certificate's subject and fingerprint.
        certificate: String,
    },
    /// No line has the datapath id.
    #[error("datapath id {dpid} is not in the file of switches; it was claimed with {certificate}")]
    Unknown {
        /// The datapath id.
        dpid: Dpid,
        /// The certificate's subject and fingerprint.
        certificate: String,
    },
    /// The certificate has expired since the session began that is resumed.
    #[error("the certificate {certificate} of switch {dpid} has expired")]
    Expired {
        /// The datapath id.
        dpid: Dpid,
        /// The certificate's subject and fingerprint.
        certificate: String,
    },
    /// Certificates are bound to switches, and the peer showed none.
    #[error("switch {dpid} showed no certificate")]
    NoCertificate {
        /// The datapath id.
        dpid: Dpid,
    },
    /// Its certificate can't be added to the file of switches, so it is not trusted.
    #[error("switch {dpid} is new, and can't be added to the file of switches: {why}")]
    NotWritten {
        /// The datapath id.
        dpid: Dpid,
        /// The reason.
        why: String,
    },
}

/// The requirement of a line on a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CertificateOwner {
    Fingerprint(String),
    /// Its attributes, each as `CN=…`.
    Subject(Vec<String>),
    Name(String),
}

/// The maximum number of datapath ids that one certificate gets by being the first. Chosen: several bridges of one
/// machine share its certificate, and one certificate must not take all ids.
const MAX_FIRST: usize = 256;

/// Datapath ids, and the owner that may use them.
type BindingLine = (Vec<RangeInclusive<u64>>, CertificateOwner);

/// The bindings of datapath ids to certificates.
#[derive(Debug)]
pub(super) struct SwitchCertificates {
    /// The file to which the first certificates of switches are added, if they are trusted.
    pins: Option<Arc<Pins>>,
    lines: Vec<BindingLine>,
    /// The fingerprints of the certificates that came first.
    first: BTreeMap<Dpid, String>,
}

impl SwitchCertificates {
    /// Reads the bindings; `None` if there are none. If first certificates are trusted, there need not be a file yet.
    ///
    /// # Errors
    /// [`SwitchesError`] if a certificate or line is wrong, or the file can't be read or, for first use, written.
    pub fn read(
        path: Option<&Path>,
        declared: &[(Dpid, String)],
        pins: Option<&Arc<Pins>>,
    ) -> Result<Option<SwitchCertificates>, SwitchesError> {
        if path.is_none() && declared.is_empty() {
            return Ok(None);
        }
        let declared = declared.iter().map(|(dpid, owner)| {
            let owner = certificate(owner).map_err(|what| SwitchesError::Declared(*dpid, what))?;
            Ok((vec![dpid.0..=dpid.0], owner))
        });
        let mut lines = declared.collect::<Result<Vec<_>, SwitchesError>>()?;
        if let Some(path) = path {
            lines.extend(SwitchCertificates::lines(path, pins)?);
        }
        let pins = pins.map(Arc::clone);
        Ok(Some(SwitchCertificates { pins, lines, first: BTreeMap::new() }))
    }

    fn lines(path: &Path, pins: Option<&Arc<Pins>>) -> Result<Vec<BindingLine>, SwitchesError> {
        let text = match pins {
            Some(pins) => pins.read().map_err(|error| SwitchesError::Write(path.to_owned(), error))?,
            None => std::fs::read_to_string(path).map_err(|error| SwitchesError::Read(path.to_owned(), error))?,
        };
        let mut lines = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let parsed = parse(line);
            lines.push(parsed.map_err(|what| SwitchesError::Line { path: path.to_owned(), line: number + 1, what })?);
        }
        Ok(lines)
    }

    /// Reports whether a certificate is bound to this datapath id.
    pub fn has(&self, dpid: Dpid) -> bool {
        let is_in = |(ids, _): &BindingLine| ids.iter().any(|ids| ids.contains(&dpid.0));
        self.first.contains_key(&dpid) || self.lines.iter().any(is_in)
    }

    /// Checks that a peer with this certificate may be this switch. Binds the first certificate, if those are trusted.
    ///
    /// # Errors
    /// [`NotThisSwitch`] if the switch is not bound to this certificate, and can't be.
    pub fn admit(&mut self, identity: &Identity, dpid: Dpid) -> Result<(), NotThisSwitch> {
        let mut owners = self.lines.iter().filter(|(ids, _)| ids.iter().any(|ids| ids.contains(&dpid.0))).peekable();
        let is_known = owners.peek().is_some();
        if owners.any(|(_, owner)| owner.is(identity)) {
            return Ok(());
        }
        let certificate = identity.to_string();
        let Some(pins) = self.pins.as_ref().filter(|_| !is_known) else {
            return Err(if is_known {
                NotThisSwitch::OtherCertificate { dpid, certificate }
            } else {
                NotThisSwitch::Unknown { dpid, certificate }
            });
        };
        if let Some(owner) = self.first.get(&dpid) {
            return if *owner == identity.fingerprint {
                Ok(())
            } else {
                Err(NotThisSwitch::OtherCertificate { dpid, certificate })
            };
        }
        if self.first.values().filter(|owner| **owner == identity.fingerprint).count() >= MAX_FIRST {
            return Err(NotThisSwitch::Unknown { dpid, certificate });
        }
        let line = format!("{dpid} sha256:{}\n", identity.fingerprint);
        pins.add(line).map_err(|why| NotThisSwitch::NotWritten { dpid, why })?;
        self.first.insert(dpid, identity.fingerprint.clone());
        Ok(())
    }
}

impl CertificateOwner {
    fn is(&self, identity: &Identity) -> bool {
        match self {
            CertificateOwner::Fingerprint(hex) => *hex == identity.fingerprint,
            // An attribute with a comma in it is two in a line, so it never matches.
            CertificateOwner::Subject(attributes) => *attributes == identity.attributes,
            CertificateOwner::Name(name) => identity.names.contains(name),
        }
    }
}

/// Splits a subject into its attributes, without spaces around commas and equals signs: programs differ in that.
fn attributes(subject: &str) -> Vec<String> {
    let pair = |pair: &str| pair.split('=').map(str::trim).collect::<Vec<_>>().join("=");
    subject.split(',').map(pair).collect()
}

fn parse(line: &str) -> Result<BindingLine, String> {
    let (ids, owner) = line.split_once(char::is_whitespace).ok_or("a line is datapath ids and a certificate")?;
    let ids = ids.split(',').map(range).collect::<Result<_, _>>()?;
    Ok((ids, certificate(owner.trim())?))
}

/// Parses the requirement on a certificate: `sha256:…`, `subject:…` or `name:…`.
fn certificate(owner: &str) -> Result<CertificateOwner, String> {
    let (kind, value) = owner.split_once(':').unwrap_or((owner, ""));
    let value = value.trim();
    Ok(match kind {
        _ if value.is_empty() => return Err(format!("{owner:?} is not a certificate: sha256:…, subject:… or name:…")),
        "sha256" => {
            let hex: String = value.chars().filter(|c| *c != ':').collect::<String>().to_ascii_lowercase();
            if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(format!("a SHA-256 has 64 hex digits, and {value:?} has not"));
            }
            CertificateOwner::Fingerprint(hex)
        }
        "subject" => CertificateOwner::Subject(attributes(value)),
        "name" => CertificateOwner::Name(value.to_owned()),
        other => return Err(format!("{other:?} is none of sha256, subject and name")),
    })
}

fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let id = |text: &str| text.parse::<Dpid>().map_err(|_| format!("{text:?} is not a datapath id (hex digits)"));
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let range = id(from)?.0..=id(to)?.0;
    if range.is_empty() { Err(format!("the range {text:?} is empty")) } else { Ok(range) }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::kept_files::{KeptFile, KeptFiles};

    fn identity(n: u8) -> Identity {
        let subject = format!("C=US, O=Open vSwitch, CN=switch {n} id:x");
        let names = vec![format!("switch {n} id:x"), format!("s{n}.example")];
        let attributes = attributes(&subject);
        Identity { fingerprint: format!("{n:02x}").repeat(32), subject, attributes, names, not_after: u64::MAX }
    }

    /// Reads the bindings in this file.
    fn read_file(path: &Path, trusts_first_use: bool) -> Result<SwitchCertificates, SwitchesError> {
        let pins = trusts_first_use.then(|| Pins::new(path));
        SwitchCertificates::read(Some(path), &[], pins.as_ref()).map(|switches| switches.expect("there is a file"))
    }

    fn read(text: &str, trusts_first_use: bool) -> (TempDir, Result<SwitchCertificates, SwitchesError>) {
        let folder = tempfile::tempdir().expect("it is made");
        let path = folder.path().join("switches");
        std::fs::write(&path, text).expect("it is written");
        let switches = read_file(&path, trusts_first_use);
        (folder, switches)
    }

    #[test]
    fn each_kind_of_line_binds_its_datapath_ids() {
        let text = format!(
            "# ids certificate\n\n1,a-c   subject:C = US,O=Open vSwitch, CN = switch 1 id:x\n2 name:s2.example\n\
             2\tname: switch 3 id:x\n0x0d sha256:{}\n",
            "04:".repeat(31) + "04"
        );
        let (_folder, switches) = read(&text, false);
        let mut switches = switches.expect("it is right");
        let allowed: Vec<(u64, u8)> = (0..=16u64)
            .flat_map(|dpid| (1..=5).map(move |n| (dpid, n)))
            .filter(|(dpid, n)| switches.admit(&identity(*n), Dpid(*dpid)).is_ok())
            .collect();
        assert_eq!(allowed, [(1, 1), (2, 2), (2, 3), (10, 1), (11, 1), (12, 1), (13, 4)]);
        let other = switches.admit(&identity(5), Dpid(1)).expect_err("it is another's").to_string();
        assert!(other.contains("0000000000000001 belongs to another certificate than C=US"), "{other}");
        let unknown = switches.admit(&identity(5), Dpid(9)).expect_err("it is nobody's").to_string();
        assert!(unknown.contains("is not in the file"), "{unknown}");
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, what) in [
            ("1", "a line is datapath ids"),
            ("1 foo", "is not a certificate"),
            ("1 subject:", "is not a certificate"),
            ("1 cn:x", "\"cn\" is none of"),
            ("x name:x", "\"x\" is not a datapath id"),
            ("1, name:x", "\"\" is not a datapath id"),
            ("3-2 name:x", "is empty"),
            ("1 sha256:abc", "64 hex digits"),
        ] {
            let (_folder, error) = read(&format!("# one\n{text}\n"), false);
            let error = error.expect_err(text).to_string();
            assert!(error.contains("switches:2: ") && error.contains(what), "{text}: {error}");
        }
        let missing = read_file(Path::new("/nowhere/switches"), false);
        assert!(matches!(missing, Err(SwitchesError::Read(..))));
    }

    #[test]
    fn the_first_certificate_of_a_new_switch_is_trusted_for_ever() {
        let (folder, switches) = read("1 name:s1.example\n", true);
        let mut switches = switches.expect("it is right");
        assert!(switches.admit(&identity(2), Dpid(1)).is_err(), "it is in the file");
        assert_eq!(switches.admit(&identity(2), Dpid(2)), Ok(()));
        assert_eq!(switches.admit(&identity(2), Dpid(2)), Ok(()));
        assert!(switches.admit(&identity(3), Dpid(2)).is_err());
        assert_eq!(switches.admit(&identity(2), Dpid(3)), Ok(()), "one certificate may be of several switches");
        // This also holds after a restart, and when first use is not trusted then.
        let path = folder.path().join("switches");
        switches.pins.as_ref().expect("they are trusted").write().expect("there is room");
        let text = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(text.lines().count(), 3, "{text}");
        for trusts in [true, false] {
            let mut again = read_file(&path, trusts).expect("it is right");
            assert_eq!(again.admit(&identity(2), Dpid(2)), Ok(()));
            assert!(again.admit(&identity(3), Dpid(2)).is_err());
            assert_eq!(again.admit(&identity(3), Dpid(if trusts { 4 } else { 5 })).is_ok(), trusts);
            if let Some(pins) = &again.pins {
                pins.write().expect("there is room");
            }
        }
        assert!(read_file(Path::new("/nowhere/switches"), true).is_err(), "it can't be written");
    }

    #[test]
    fn unwritable_bindings_hold_in_memory_and_are_written_later_as_whole_lines() {
        let (folder, switches) = read("1 name:s1.example\n", true);
        let (mut switches, path) = (switches.expect("it is right"), folder.path().join("switches"));
        let pins = Arc::clone(switches.pins.as_ref().expect("they are trusted"));
        let (files, aside) = (KeptFiles::default(), folder.path().join("aside"));
        pins.report_to(&files);
        // Nothing can be written to a folder.
        std::fs::rename(&path, &aside).expect("it is there");
        std::fs::create_dir(&path).expect("a folder");
        assert_eq!(switches.admit(&identity(2), Dpid(2)), Ok(()));
        pins.write().expect_err("it is a folder");
        assert!(switches.admit(&identity(3), Dpid(2)).is_err(), "it is bound");
        std::fs::remove_dir(&path).expect("it is there");
        std::fs::rename(&aside, &path).expect("it is there");
        pins.write().expect("there is room");
        let lines = || std::fs::read_to_string(&path).expect("it is there").lines().count();
        assert_eq!(lines(), 2);
        // The file is deleted, and made anew with all that it had.
        std::fs::remove_file(&path).expect("it is there");
        assert!(pins.write().expect("there is room").starts_with("; it was made anew"));
        assert!(files.is_failing(KeptFile::Switches), "it is reported");
        assert_eq!(lines(), 2);
        // The text that is read again has the lines that wait.
        assert_eq!(switches.admit(&identity(4), Dpid(4)), Ok(()));
        let again =
            SwitchCertificates::read(Some(&path), &[], Some(&pins)).expect("it is right").expect("there is a file");
        assert!(again.has(Dpid(4)) && lines() == 2);
        pins.write().expect("there is room");
        assert_eq!(lines(), 3);
    }

    #[test]
    fn lines_that_wait_are_bounded() {
        let (_folder, switches) = read("", true);
        let mut switches = switches.expect("it is right");
        let many = |switches: &mut SwitchCertificates, n: u8| {
            (0..MAX_FIRST as u64)
                .map(|id| switches.admit(&identity(n), Dpid(u64::from(n) << 32 | id)))
                .collect::<Vec<_>>()
        };
        let all: Vec<_> = (0..17).flat_map(|n| many(&mut switches, n)).collect();
        assert_eq!(all.iter().filter(|admitted| admitted.is_ok()).count(), 4096);
        assert!(matches!(all[4096], Err(NotThisSwitch::NotWritten { .. })));
    }

    #[test]
    fn declared_switches_are_bound_too() {
        let declared = [(Dpid(7), "name:s1.example".to_owned()), (Dpid(8), "name:s2.example".to_owned())];
        let switches = SwitchCertificates::read(None, &declared, None).expect("it is right");
        let mut switches = switches.expect("something is bound");
        assert!(switches.admit(&identity(1), Dpid(7)).is_ok() && switches.admit(&identity(2), Dpid(8)).is_ok());
        for (dpid, n) in [(7, 2), (8, 1), (9, 1)] {
            assert!(switches.admit(&identity(n), Dpid(dpid)).is_err());
        }
        let wrong =
            SwitchCertificates::read(None, &[(Dpid(7), "x".to_owned())], None).expect_err("it is not a certificate");
        assert!(wrong.to_string().starts_with("switch 0000000000000007: \"x\" is not a certificate"), "{wrong}");
        assert!(SwitchCertificates::read(None, &[], None).expect("it is right").is_none());
    }
}
