//! TLS: the certificates that the command line names, which are read again while the controller runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::anyhow;
use maple_controller::ControllerOptions;
use maple_controller::tls::{Tls, TlsFiles, WARN_BEFORE};

use super::progress::Lines;
use crate::declared::DeclaredNetwork;
use crate::options::TlsArgs;
use crate::signal;
use crate::usage_error::{OrUsageError as _, usage_error};
use crate::values::Listen;

/// The time between two checks of the files. Chosen: a new certificate counts at once for people, and a check costs a
/// look at each file.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two warnings. Chosen: once a day is seen, and does not fill the log.
const WARN_EVERY: Duration = Duration::from_secs(86_400);

/// Reads the files, if there are any, and sets the listening addresses.
///
/// # Errors
/// If the options do not fit together, or if a file is wrong.
pub fn apply(
    args: &TlsArgs,
    listen: &[Listen],
    declared: &DeclaredNetwork,
    chosen: &mut ControllerOptions,
) -> anyhow::Result<()> {
    let (tls, plain): (Vec<Listen>, Vec<Listen>) = listen.iter().partition(|one| one.is_tls);
    let addresses = |all: Vec<Listen>| all.into_iter().map(|one| one.address).collect::<Vec<_>>();
    if !listen.is_empty() {
        (chosen.openflow.listen, chosen.openflow.listen_tls) = (addresses(plain), addresses(tls));
    }
    if let Some(files) = files(args, listen, declared)? {
        if listen.is_empty() {
            chosen.openflow.listen_tls = std::mem::take(&mut chosen.openflow.listen);
        }
        chosen.openflow.tls = Some(Arc::new(Tls::open(files).or_usage_error()?));
    }
    Ok(())
}

/// Returns the files, if there are any.
///
/// # Errors
/// If the options do not fit together.
pub fn files(args: &TlsArgs, listen: &[Listen], declared: &DeclaredNetwork) -> anyhow::Result<Option<TlsFiles>> {
    let tls = listen.iter().find(|one| one.is_tls);
    let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else {
        if let Some((dpid, _)) = declared.certificates.first() {
            return Err(usage_error(anyhow!(
                "the configuration binds switch {dpid} to a certificate, which needs tls-cert"
            )));
        }
        return match tls {
            Some(Listen { address, .. }) => {
                Err(usage_error(anyhow!("--listen tls:{address} needs --tls-cert, --tls-key and --tls-ca")))
            }
            None => Ok(None),
        };
    };
    if args.tls_ca.is_none() && !args.tls_no_client_cert {
        return Err(usage_error(anyhow!(
            "--tls-cert needs --tls-ca, the authorities that sign the certificates of switches; or \
             --tls-no-client-cert, and then whatever reaches the port may be any switch"
        )));
    }
    if !listen.is_empty() && tls.is_none() {
        return Err(usage_error(anyhow!("--tls-cert needs an address for TLS, such as --listen tls:0.0.0.0:6653")));
    }
    let mut files = TlsFiles::new(certificate, key);
    files.authorities.clone_from(&args.tls_ca);
    files.revoked.clone_from(&args.tls_crl);
    files.switches.clone_from(&args.tls_switches);
    files.declared.clone_from(&declared.certificates);
    files.trusts_first_use = args.tls_trust_on_first_use;
    Ok(Some(files))
}

/// Reads the files again on SIGHUP and when they have changed, and warns before the certificate expires.
pub struct Renewal {
    tls: Arc<Tls>,
    hangup: Arc<AtomicBool>,
    looked: Option<Instant>,
    warned: Option<Instant>,
}

impl Renewal {
    /// Creates the renewal of certificates for a controller with these options; `None` if it has no TLS.
    ///
    /// # Errors
    /// If the signal handler can't be installed.
    pub fn from_options(chosen: &ControllerOptions) -> anyhow::Result<Option<Renewal>> {
        let Some(tls) = chosen.openflow.tls.clone() else { return Ok(None) };
        Ok(Some(Renewal { tls, hangup: signal::hangup_flag()?, looked: None, warned: None }))
    }

    /// Reads the files again and prints warnings, if that is due.
    pub fn look(&mut self, lines: &mut Lines) {
        let is_asked = self.hangup.swap(false, Ordering::SeqCst);
        if !is_asked && self.looked.is_some_and(|looked| looked.elapsed() < CHECK_INTERVAL) {
            return;
        }
        self.looked = Some(Instant::now());
        let read = if is_asked { self.tls.reload().map(|()| true) } else { self.tls.reload_if_changed() };
        match read {
            Ok(true) => {
                lines.print_event("TLS: certificates read again");
                self.warned = None;
            }
            Ok(false) => {}
            Err(error) => {
                lines.print_event(&format!("warning: TLS goes on with the certificates as they were: {error}"))
            }
        }
        if self.warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY) {
            self.warned = Some(Instant::now());
            lines_of_expiry(self.tls.expires(), SystemTime::now()).iter().for_each(|line| lines.print_event(line));
        }
    }
}

/// Returns the warning about a certificate with this expiry, if there is one.
fn lines_of_expiry(expires: SystemTime, now: SystemTime) -> Option<String> {
    match expires.duration_since(now) {
        Err(_) => Some("warning: the controller's certificate has expired; switches refuse it".into()),
        Ok(left) if left < WARN_BEFORE => {
            Some(format!("warning: the controller's certificate expires in {} days", left.as_secs() / 86_400))
        }
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_begin_thirty_days_ahead() {
        let now = SystemTime::now();
        let days = |count: u64| now + Duration::from_secs(count * 86_400 + 1);
        assert_eq!(lines_of_expiry(days(30), now), None);
        assert!(lines_of_expiry(days(29), now).expect("soon").ends_with("in 29 days"));
        assert!(lines_of_expiry(days(0), now).expect("soon").ends_with("in 0 days"));
        assert!(lines_of_expiry(now - Duration::from_secs(1), now).expect("over").contains("has expired"));
    }
}
