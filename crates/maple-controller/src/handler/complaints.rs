//! Where handlers report what went wrong in them, when the switch is to be served all the same.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use maple_wire::Dpid;

use crate::notice::{Notice, Notices};

/// One switch's way to tell people that its handler failed.
///
/// The same error is told the first time, the tenth, the hundredth and so on, over all switches; so whoever reports gives
/// what comes from the same place in the same words.
#[derive(Clone, Debug)]
pub struct Complaints {
    notices: Notices,
    dpid: Dpid,
}

impl Complaints {
    /// Those of this switch.
    pub(crate) fn new(notices: Notices, dpid: Dpid) -> Complaints {
        Complaints { notices, dpid }
    }

    /// Complaints without a controller, and where they can be read: for tests of handlers.
    pub fn alone(dpid: Dpid) -> (Complaints, Receiver<Notice>) {
        let (notices, receiver) = Notices::new();
        (Complaints { notices, dpid }, receiver)
    }

    /// Reports an error.
    pub fn tell(&self, error: Arc<str>) {
        self.notices.handler_failed(self.dpid, error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_at_powers_of_ten() {
        let (complaints, told) = Complaints::alone(Dpid(7));
        (0..150).for_each(|_| complaints.tell("broken".into()));
        complaints.tell("otherwise".into());
        let texts: Vec<String> = told.try_iter().map(|notice| notice.to_string()).collect();
        let failed = "the handler of switch 0000000000000007 failed";
        let expected = ["".to_owned(), ", 10 times so far".to_owned(), ", 100 times so far".to_owned()]
            .map(|times| format!("{failed}{times}: broken"));
        assert_eq!(texts[..3], expected);
        assert_eq!(texts[3], format!("{failed}: otherwise"));
    }
}
