//! Standard output, and the exit status.

use std::io::Write as _;

use crate::usage_error::UsageError;

/// Prints a line on standard output. Does nothing if a reader such as `head` has closed it.
pub fn print_line(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Prints help, the version, or an error of the command line. Returns the exit status.
pub fn print_usage(error: &clap::Error) -> u8 {
    // A closed terminal needs no text.
    let _ = error.print();
    error.exit_code() as u8
}

/// Prints the error of a command, if it failed. Returns the exit status.
pub fn exit_status(result: anyhow::Result<u8>) -> u8 {
    match result {
        Ok(status) => status,
        Err(error) if is_closed_pipe(&error) => 0,
        Err(error) => {
            eprintln!("maple: {error:#}");
            if error.is::<UsageError>() { 2 } else { 1 }
        }
    }
}

/// Whether writing failed because a reader such as `head` has closed the pipe.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
