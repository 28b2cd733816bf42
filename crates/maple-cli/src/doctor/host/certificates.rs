//! The expiry of certificates.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use maple_controller::tls::{TlsError, WARN_BEFORE, expiry};

use super::{DoctorReport, Finding, FindingId, Severity};

/// Checks the expiry of the controller's certificates (in seconds since 1970), and of these files.
pub fn look(of_controller: [(&str, Option<u64>); 2], files: &[PathBuf], report: &mut DoctorReport) {
    let now = SystemTime::now();
    for (place, seconds) in of_controller {
        let Some(seconds) = seconds else { continue };
        report.add_checked(place);
        let ends = UNIX_EPOCH + Duration::from_secs(seconds);
        let mend = "put a new one in its place; the controller reads it by itself";
        report.extend(finding(place, mend, ends, now));
    }
    for file in files {
        let place = format!("certificate {}", file.display());
        match expiry(file) {
            Ok(ends) => {
                report.extend(finding(
                    &place,
                    "put a new one in its place: ovs-pki makes them (docs/tls.md)",
                    ends,
                    now,
                ));
                report.add_checked(place);
            }
            Err(TlsError::Read(_, error)) if error.kind() == ErrorKind::PermissionDenied => {
                report.add_unchecked(place, error.to_string());
            }
            Err(error) => {
                report.add_checked(&place);
                report.add(
                    Finding::new(Severity::Error, FindingId::TlsFiles, place)
                        .what(error.to_string())
                        .consequence("no session with TLS begins with it")
                        .mend("put a certificate in its place: ovs-pki makes them (docs/tls.md)"),
                );
            }
        }
    }
}

fn finding(place: &str, mend: &str, ends: SystemTime, now: SystemTime) -> Option<Finding> {
    let reported = |severity| Finding::new(severity, FindingId::CertificateExpires, place).mend(mend);
    match ends.duration_since(now) {
        Err(_) => {
            Some(reported(Severity::Error).what("it has expired").consequence("no session with TLS begins any more"))
        }
        Ok(left) if left < WARN_BEFORE => {
            let days = left.as_secs() / 86_400;
            let what = format!("it expires in {days} {}", if days == 1 { "day" } else { "days" });
            Some(reported(Severity::Warning).what(what).consequence("after that no session with TLS begins any more"))
        }
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_of_the_http_api_is_warned_of_beside_that_for_switches() {
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).expect("it is later").as_secs();
        let ends = SystemTime::now() + Duration::from_secs(10 * 86_400 + 60);
        let expiries = [("that for switches", None), ("that of the HTTP API", Some(seconds(ends)))];
        let mut report = DoctorReport::default();
        look(expiries, &[], &mut report);
        let text: Vec<String> = report.findings().iter().map(Finding::plain).collect();
        assert!(text.len() == 1 && text[0].contains("that of the HTTP API"), "{text:?}");
        assert!(text[0].contains("expires in 10 days"), "{text:?}");
    }

    #[test]
    fn the_last_thirty_days_are_warned_of() {
        let now = SystemTime::now();
        let days = |count: u64| finding("c", "m", now + Duration::from_secs(count * 86_400 + 1), now);
        assert_eq!(days(30), None);
        assert!(days(29).expect("soon").plain().contains("expires in 29 days"));
        assert!(days(1).expect("soon").plain().contains("expires in 1 day\n"));
        assert_eq!(
            finding("c", "m", now - Duration::from_secs(1), now).map(|one| one.severity()),
            Some(Severity::Error)
        );
    }
}
