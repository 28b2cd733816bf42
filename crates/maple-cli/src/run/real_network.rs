//! A controller on a real network: what it prints and looks at until it ends, for policies and handlers.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use maple_controller::Handle;
use maple_controller::control::HAS_PAGE;
use maple_controller::takeover::Successor;

use super::NOTICE_INTERVAL;
use super::progress::Lines;
use super::tls::Renewal;
use crate::logging::Logging;
use crate::service::{self, Watchdog};

/// A controller that serves the switches of a real network.
pub struct RealNetwork<'a> {
    handle: &'a Handle,
    /// The output. It begins with the controller's addresses.
    pub lines: Lines,
    renewal: Option<Renewal>,
    watchdog: Option<Watchdog>,
}

impl<'a> RealNetwork<'a> {
    /// Prints the addresses of a controller that has started.
    pub fn new(handle: &'a Handle, logging: Logging, renewal: Option<Renewal>) -> RealNetwork<'a> {
        let mut lines = Lines::new(handle.names(), logging);
        lines.report_to(handle.operations().files());
        lines.print_line(&listening(handle));
        if let Some(address) = handle.operations().metrics_address() {
            lines.print_line(&format!("metrics at http://{address}/metrics"));
        }
        http_lines(handle).iter().for_each(|line| lines.print_line(line));
        RealNetwork { handle, lines, renewal, watchdog: None }
    }

    /// Serves until `stop` is set, the controller fails, or `each_turn` returns a process that takes over, which is
    /// returned. The service manager learns of the beginning, and of the end unless another process takes over.
    pub fn serve(
        &mut self,
        stop: &AtomicBool,
        mut each_turn: impl FnMut(&mut Lines) -> Option<Successor>,
    ) -> Option<Successor> {
        service::notify(&format!("READY=1\nSTATUS={}", listening(self.handle)));
        self.watchdog = Some(Watchdog::start(self.handle));
        while !stop.load(Ordering::SeqCst) && self.handle.failure().is_none() {
            self.lines.follow(self.handle, NOTICE_INTERVAL);
            if let Some(renewal) = &mut self.renewal {
                renewal.look(&mut self.lines);
            }
            if let Some(successor) = each_turn(&mut self.lines) {
                return Some(successor);
            }
        }
        service::notify("STOPPING=1");
        None
    }

    /// Prints the rest of the log.
    pub fn print_rest(&mut self) {
        self.lines.follow(self.handle, Duration::ZERO);
    }
}

/// Returns the addresses of the HTTP API and of its page, as lines, if they are served.
pub fn http_lines(handle: &Handle) -> Vec<String> {
    let Some(address) = handle.operations().http_address() else { return Vec::new() };
    let scheme = if handle.operations().http_has_tls() { "https" } else { "http" };
    let page = HAS_PAGE.then(|| format!("page at {scheme}://{address}/"));
    [format!("HTTP API at {scheme}://{address}/v1")].into_iter().chain(page).collect()
}

/// Returns the addresses at which the controller listens, as a line.
fn listening(handle: &Handle) -> String {
    let addresses: Vec<String> = handle.addresses().iter().map(SocketAddr::to_string).collect();
    format!("listening on {}", addresses.join(", "))
}
