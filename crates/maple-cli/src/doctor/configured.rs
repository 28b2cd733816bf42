//! The configuration of this host's controller, whether that runs or not.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use maple_controller::OPENFLOW_PORT;
use maple_controller::tls::{SwitchesError, Tls, TlsError};

use crate::config::{self, DEFAULT_FILE};
use crate::options::RunOptions;
use crate::run::tls;
use maple_controller::Endpoint;
use maple_controller::control::doctor::{DoctorReport, Finding, FindingId, Severity, quoted};

/// The options of a configuration, if there is a readable one.
#[derive(Debug, Default)]
pub struct ConfiguredOptions(Option<RunOptions>);

impl ConfiguredOptions {
    /// Reads a file, or the default one if it exists. A wrong file is a finding.
    pub fn read(file: Option<&Path>, report: &mut DoctorReport) -> ConfiguredOptions {
        let default = Path::new(DEFAULT_FILE);
        let Some(file) = file.or_else(|| default.exists().then_some(default)) else {
            report.add_unchecked(
                "a configuration",
                format!("none was named (--config FILE), and there is no {DEFAULT_FILE}"),
            );
            return ConfiguredOptions::default();
        };
        let place = format!("the configuration {}", file.display());
        match config::run_options(file) {
            Ok(options) => {
                report.add_checked(place);
                look_at_tls(&options, file, report);
                ConfiguredOptions(Some(options))
            }
            Err(error) if error.downcast_ref().is_some_and(is_denied) => {
                report.add_unchecked(place, format!("{error:#}"));
                ConfiguredOptions::default()
            }
            Err(error) => {
                report.add_checked(place);
                report.add(
                    Finding::new(
                        Severity::Error,
                        FindingId::Configuration,
                        format!("configuration {}", file.display()),
                    )
                    .what(format!("{error:#}"))
                    .consequence("a controller with it does not start")
                    .mend(format!("maple config check {}", quoted(file))),
                );
                ConfiguredOptions::default()
            }
        }
    }

    /// Reports whether a configuration was read.
    pub fn is_given(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the control socket that it names.
    pub fn control(&self) -> Option<&Path> {
        self.0.as_ref()?.control.as_deref().filter(|path| *path != Path::new("none"))
    }

    /// Returns the state file that it names.
    pub fn state_file(&self) -> Option<&Path> {
        self.0.as_ref()?.state.as_deref()
    }

    /// Returns the addresses on which a controller with this configuration listens; without one, the default of `maple
    /// run`.
    pub fn listening(&self) -> Vec<Endpoint> {
        let given = self.given_listening();
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, OPENFLOW_PORT));
        let tls = self.0.as_ref().is_some_and(|options| options.tls.tls_cert.is_some());
        if given.is_empty() { vec![Endpoint { address, has_tls: tls }] } else { given }
    }

    /// Returns the addresses on which the configuration says to listen.
    pub fn given_listening(&self) -> Vec<Endpoint> {
        let listen = self.0.iter().flat_map(|options| &options.listen);
        listen.map(|one| Endpoint { address: one.address, has_tls: one.is_tls }).collect()
    }

    /// Returns the certificate files that it names.
    pub fn certificates(&self) -> Vec<PathBuf> {
        let tls = self.0.as_ref().map(|options| &options.tls);
        tls.into_iter().flat_map(|tls| [&tls.tls_cert, &tls.tls_ca]).flatten().cloned().collect()
    }
}

/// Checks the files for TLS that the options of this file name, and whether the options fit together.
fn look_at_tls(options: &RunOptions, file: &Path, report: &mut DoctorReport) {
    let what = match tls::files(&options.tls, &options.listen, &options.network) {
        Ok(None) => return,
        Ok(Some(files)) => match Tls::open(files) {
            Ok(_) => return,
            Err(error) if of_system(&error).is_some_and(is_denied) => {
                return report.add_unchecked(format!("the files for TLS of {}", file.display()), error.to_string());
            }
            Err(error) => error.to_string(),
        },
        Err(error) => format!("{error:#}"),
    };
    report.add(
        Finding::new(Severity::Error, FindingId::TlsFiles, format!("configuration {}", file.display()))
            .what(what)
            .consequence("a controller with it does not start, and one that runs goes on with the files as they were")
            .mend(format!("maple config show --config {}  # names the files", quoted(file))),
    );
}

/// Returns the system's error, if it is one.
fn of_system(error: &TlsError) -> Option<&io::Error> {
    match error {
        TlsError::Read(_, error)
        | TlsError::Switches(SwitchesError::Read(_, error) | SwitchesError::Write(_, error)) => Some(error),
        _ => None,
    }
}

/// Reports whether this user lacks the permission. The controller's user may have it.
fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (ConfiguredOptions, DoctorReport) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&file, text).expect("a file");
        let mut report = DoctorReport::default();
        let configured = ConfiguredOptions::read(Some(file.path()), &mut report);
        (configured, report)
    }

    #[test]
    fn a_configuration_says_where_and_with_what() {
        let text = "listen = [\"tcp:127.0.0.1:6633\"]\nstate = \"/var/lib/maple/s\"\ncontrol = \"/run/c\"\n";
        let (configured, report) = read(text);
        assert!(report.findings().is_empty() && configured.is_given());
        let address = "127.0.0.1:6633".parse().expect("an address");
        assert_eq!(configured.listening(), [Endpoint { address, has_tls: false }]);
        assert_eq!(configured.state_file(), Some(Path::new("/var/lib/maple/s")));
        assert_eq!(configured.control(), Some(Path::new("/run/c")));
        let none = ConfiguredOptions::default();
        assert_eq!(none.listening()[0].address.port(), OPENFLOW_PORT);
        assert!(none.given_listening().is_empty() && none.certificates().is_empty());
    }

    #[test]
    fn mistakes_in_the_configuration_are_findings() {
        let (configured, report) = read("listen = 3.5\nworkes = 1\n");
        assert!(!configured.is_given());
        let text = report.findings()[0].plain();
        assert!(text.starts_with("error configuration: ") && text.contains("did you mean \"workers\""), "{text}");
        let (_, report) =
            read("[tls]\ncert = \"/nonexistent/cert\"\nkey = \"/nonexistent/key\"\nca = \"/nonexistent/ca\"\n");
        assert!(report.findings()[0].plain().starts_with("error tls-files: "));
        for text in
            ["listen = [\"tls:127.0.0.1:6653\"]\n", "[tls]\ncert = \"/nonexistent/c\"\nkey = \"/nonexistent/k\"\n"]
        {
            let (_, report) = read(text);
            let text = report.findings()[0].plain();
            assert!(text.starts_with("error tls-files: ") && text.contains(" needs --tls-"), "{text}");
        }
    }
}
