//! Reports errors of handlers that do not end the service of their switch.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use maple_wire::Dpid;

use crate::notice::{Notice, Notices};

/// Reports errors of one switch's handler.
///
/// An error text is published the first, tenth, hundredth… time, counted over all switches. So errors from the same
/// place should have the same text.
#[derive(Clone, Debug)]
pub struct ErrorReporter {
    notices: Notices,
    dpid: Dpid,
}

impl ErrorReporter {
    /// Creates the reporter of this switch.
    pub(crate) fn new(notices: Notices, dpid: Dpid) -> ErrorReporter {
        ErrorReporter { notices, dpid }
    }

    /// Creates a reporter without a controller, and the receiver of its notices, for tests of handlers.
    pub fn detached(dpid: Dpid) -> (ErrorReporter, Receiver<Notice>) {
        let (notices, receiver) = Notices::new(Arc::default());
        (ErrorReporter { notices, dpid }, receiver)
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
