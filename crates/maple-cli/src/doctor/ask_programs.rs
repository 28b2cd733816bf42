//! Queries other programs and sockets within a time limit.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The maximum time that a program may take, so that one that hangs does not keep the report from people.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// The time between two checks whether the program has ended. Chosen: a person does not notice it, and most programs
/// end within tens of milliseconds.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// The maximum number of bytes that are read of a program's output. Chosen: it bounds memory, and the lists of a switch
/// with a million rules fit.
const MAX_OUTPUT: u64 = 64 << 20;

/// Returns the output of a program.
///
/// # Errors
/// A text, if the program does not exist, fails, or takes too long, in which case it is ended.
pub fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("there is no program {program}"),
        _ => format!("can't run {program}: {error}"),
    })?;
    let (reported, failed) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let end = Instant::now() + TIME_LIMIT;
    let status = wait(&mut child, end).ok_or_else(|| format!("{program} did not end within {TIME_LIMIT:?}"))?;
    // A child of the program may keep a pipe open.
    let read = |from: Receiver<String>| from.recv_timeout(Duration::from_secs(1));
    if status {
        return read(reported).map_err(|_| format!("{program} ended, and another program holds its output open"));
    }
    let said = read(failed).unwrap_or_default();
    let why = said.lines().last().unwrap_or("without a word");
    Err(format!("{program} failed: {why}"))
}

/// Returns the result of `work`; `None` if it takes too long. Then it continues until this program ends.
pub fn within<T: Send + 'static>(time: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = channel();
    // If it took too long, nobody receives the result.
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(time).ok()
}

/// Waits for a program. Reports whether it succeeded; `None` if it took too long.
fn wait(child: &mut Child, end: Instant) -> Option<bool> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if Instant::now() < end => std::thread::sleep(CHECK_INTERVAL),
            _ => {
                // It may have ended at this moment.
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

/// Reads in a thread, so that a full pipe blocks nobody.
fn reader(from: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // Output that can't be read is missing.
        let _ = from.map(|from| from.take(MAX_OUTPUT).read_to_end(&mut bytes));
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_takes_too_long_is_left_alone() {
        assert_eq!(within(Duration::from_secs(5), || 1), Some(1));
        assert_eq!(within(Duration::from_millis(1), || std::thread::sleep(Duration::from_secs(5))), None);
    }

    #[test]
    fn a_program_yields_its_output_or_the_reason_for_its_failure() {
        assert_eq!(output("echo", &["one"]), Ok("one\n".to_owned()));
        assert_eq!(output("/nonexistent", &[]), Err("there is no program /nonexistent".to_owned()));
        assert_eq!(output("sh", &["-c", "echo a >&2; echo b >&2; exit 3"]), Err("sh failed: b".to_owned()));
        let many = output("sh", &["-c", "head -c 1000000 /dev/zero"]).expect("it ends");
        assert_eq!(many.len(), 1_000_000, "more than a pipe holds");
        assert!(output("sh", &["-c", "sleep 3 & echo a"]).is_err(), "there may be more to come");
    }
}
