//! Starts controllers as separate processes for one measurement, and stops them after it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// The maximum time until a controller listens: far more than any one measured here takes, so only a broken one exceeds
/// it.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(20);
/// The interval of checks whether it listens. Start-up is not measured, so it may add this time.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A controller to measure: its name and the command line that starts it.
#[derive(Clone, Debug)]
pub struct Contender {
    /// Its name in tables.
    pub name: String,
    /// A shell command with the placeholders `{port}`, `{workers}` and `{cores}`.
    pub command: String,
}

/// A running controller. Dropping it stops it.
pub struct Running {
    child: Child,
    /// The address that it listens on.
    pub address: SocketAddr,
}

impl Contender {
    /// Parses `NAME=COMMAND`, or a command that is also the name.
    ///
    /// # Errors
    /// A text that asks for `{port}` if the command lacks it.
    pub fn parse(text: &str) -> Result<Contender, String> {
        let (name, command) = match text.split_once('=') {
            Some((name, command)) if !name.contains([' ', '/', '{']) => (name, command),
            _ => (text.split_whitespace().next().unwrap_or_default(), text),
        };
        if !command.contains("{port}") {
            return Err(format!("{text:?} does not say {{port}}, where the controller is to listen"));
        }
        Ok(Contender { name: name.to_owned(), command: command.to_owned() })
    }

    /// Creates the contender of a `maple`, which runs a policy or handler, followed by options of `maple run`. It has a
    /// control socket only if an option names it. Without a `program` it is the `maple` beside this one.
    ///
    /// # Errors
    /// If there is none.
    pub fn ours(program: Option<&Path>, policy: &str, more: &str) -> anyhow::Result<Contender> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => beside()?,
        };
        let rest = "--listen 127.0.0.1:{port} --cores {cores} --workers {workers}";
        let rest = if more.contains("--control ") { rest.to_owned() } else { format!("{rest} --control none") };
        Ok(Contender { name: "maple".into(), command: format!("'{}' run {policy} {rest}{more}", program.display()) })
    }

    /// Starts the controller on these cores, and waits until it listens.
    ///
    /// # Errors
    /// If no port is free, the command can't be started, or the controller does not listen in time.
    pub fn start(&self, cores: &[usize], workers: u8) -> anyhow::Result<Running> {
        let cores = cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let address = free.context("no free port")?;
        let command = self.command.replace("{port}", &address.port().to_string());
        let command = command.replace("{workers}", &workers.to_string()).replace("{cores}", &cores);
        let child = Command::new("sh")
            .args(["-c", &format!("exec taskset -c {cores} {command}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("can't start a shell")?;
        let mut running = Running { child, address };
        running.wait().with_context(|| format!("{}: {command}", self.name))?;
        Ok(running)
    }
}

impl Running {
    /// Returns the id of the controller's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + LISTEN_TIMEOUT;
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended before it listened, with {status}");
            }
            if Instant::now() > deadline {
                bail!("it does not listen on {} after {LISTEN_TIMEOUT:?}", self.address);
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Killing fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the path of `maple` in the folder of this program.
fn beside() -> anyhow::Result<PathBuf> {
    let maple = std::env::current_exe().context("can't tell which program this is")?.with_file_name("maple");
    if !maple.exists() {
        bail!("there is no {}: build it (cargo build --release -p maple-cli), or choose --maple", maple.display());
    }
    Ok(maple)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contender_has_a_name_and_says_where_its_port_goes() {
        let named = Contender::parse("limit=./of_limit -l -p {port}").unwrap();
        assert_eq!((named.name.as_str(), named.command.as_str()), ("limit", "./of_limit -l -p {port}"));
        assert_eq!(Contender::parse("./nox -i ptcp:{port} a=b").unwrap().name, "./nox");
        assert!(Contender::parse("nox").unwrap_err().contains("{port}"));
    }

    #[test]
    fn a_controller_that_ends_at_once_is_an_error_that_names_it() {
        let contender = Contender { name: "none".into(), command: "false {port}".into() };
        let Err(error) = contender.start(&[0], 1) else { panic!("it does not run") };
        assert!(format!("{error:#}").starts_with("none: false "), "{error:#}");
    }
}
