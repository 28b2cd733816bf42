//! Reports errors of programs that do not end the service of their switch.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use maple_wire::Dpid;

use crate::notice::{Notice, Notices};

/// Makes the error reporters of switches.
#[derive(Clone, Debug)]
pub struct ProgramErrors(Notices);

impl ProgramErrors {
    /// Creates the maker of reporters that publish notices.
    pub(crate) fn new(notices: Notices) -> ProgramErrors {
        ProgramErrors(notices)
    }

    /// Creates the reporter of a switch.
    pub fn of_switch(&self, dpid: Dpid) -> ErrorReporter {
        ErrorReporter { notices: self.0.clone(), dpid }
    }

    /// Creates a maker of reporters without a controller, and the receiver of their notices, for tests.
    pub fn detached() -> (ProgramErrors, Receiver<Notice>) {
        let (notices, receiver) = Notices::new(Arc::default());
        (ProgramErrors(notices), receiver)
    }
}

/// Reports errors of one switch's program, such as a handler.
///
/// An error text is published the first, tenth, hundredth… time, counted over all switches. So errors from the same
/// place should have the same text.
#[derive(Clone, Debug)]
pub struct ErrorReporter {
    notices: Notices,
    dpid: Dpid,
}

impl ErrorReporter {
    /// Creates a reporter without a controller, and the receiver of its notices, for tests of handlers.
    pub fn detached(dpid: Dpid) -> (ErrorReporter, Receiver<Notice>) {
        let (errors, receiver) = ProgramErrors::detached();
        (errors.of_switch(dpid), receiver)
    }

    /// Reports an error.
    pub fn report(&self, error: Arc<str>) {
        self.notices.handler_failed(self.dpid, error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_published_at_powers_of_ten() {
        let (reporter, published) = ErrorReporter::detached(Dpid(7));
        (0..150).for_each(|_| reporter.report("broken".into()));
        reporter.report("otherwise".into());
        let texts: Vec<String> = published.try_iter().map(|notice| notice.to_string()).collect();
        let failed = "the handler of switch 0000000000000007 failed";
        let expected = ["".to_owned(), ", 10 times so far".to_owned(), ", 100 times so far".to_owned()]
            .map(|times| format!("{failed}{times}: broken"));
        assert_eq!(texts[..3], expected);
        assert_eq!(texts[3], format!("{failed}: otherwise"));
    }
}
