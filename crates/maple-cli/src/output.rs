//! Standard output, and the exit status.

use std::io::Write as _;
use std::sync::OnceLock;

use crate::usage_error::UsageError;

/// Whether the compiler optimised this build. Optimised profiles leave out everything that only debugging needs.
pub const IS_OPTIMISED: bool = !cfg!(debug_assertions);

/// The reason why a line could not be printed, the first time.
static FAILED: OnceLock<String> = OnceLock::new();

/// Prints a line on standard output. If a reader such as `head` has closed it, nothing happens; any other failure makes
/// the command fail ([`exit_status`]).
pub fn print_line(line: impl std::fmt::Display) {
    if let Err(error) = try_to_print_line(line) {
        FAILED.get_or_init(|| error.to_string());
    }
}

/// Prints a line on standard output. If a reader such as `head` has closed it, nothing happens.
///
/// # Errors
/// If standard output can't be written for another reason.
pub fn try_to_print_line(line: impl std::fmt::Display) -> std::io::Result<()> {
    match writeln!(std::io::stdout().lock(), "{line}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Prints help, the version, or an error of the command line. Returns the exit status.
pub fn print_usage(error: &clap::Error) -> u8 {
    // If printing fails, the terminal is closed and needs no text.
    let _ = error.print();
    error.exit_code() as u8
}

/// Prints the error of a command, if it failed. Returns the exit status.
pub fn exit_status(result: anyhow::Result<u8>) -> u8 {
    match result {
        Ok(status) => FAILED.get().map_or(status, |why| {
            eprintln!("maple: can't write to standard output: {why}");
            1
        }),
        Err(error) if is_closed_pipe(&error) => 0,
        Err(error) => {
            eprintln!("maple: {error:#}");
            if error.is::<UsageError>() { 2 } else { 1 }
        }
    }
}

/// Reports whether writing failed because a reader such as `head` has closed the pipe.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
