//! The run that is current in this thread.
//!
//! Objects that a policy holds (packet, fields, net) carry only a [`Ticket`], and find their run here. So a policy can
//! keep them or pass them to another thread, and at worst gets a clear error.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use maple_core::policy::{Net, PacketHandle};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::source;

thread_local! {
    /// The packet and the network of the current run. The run of a query has no packet.
    static CURRENT: RefCell<Option<(Option<PacketHandle>, Net)>> = const { RefCell::new(None) };
    static TICKET: Cell<u64> = const { Cell::new(0) };
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The identity of one run in this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket(u64);

/// A guard: while it lives, its run is the current one of the thread.
pub struct Entered {
    ticket: Ticket,
    outer: (u64, Option<(Option<PacketHandle>, Net)>),
}

impl Entered {
    /// Makes the run that these handles belong to the current one of this thread.
    pub fn new(pkt: PacketHandle, net: Net) -> Entered {
        Entered::with(Some(pkt), net)
    }

    /// Makes the run of a query the current one of this thread. It has no packet.
    pub fn of_query(net: Net) -> Entered {
        Entered::with(None, net)
    }

    fn with(pkt: Option<PacketHandle>, net: Net) -> Entered {
        let ticket = Ticket(NEXT.fetch_add(1, Ordering::Relaxed));
        Entered { ticket, outer: (TICKET.replace(ticket.0), CURRENT.replace(Some((pkt, net)))) }
    }

    /// Returns the ticket of this run's objects.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        TICKET.set(self.outer.0);
        CURRENT.replace(self.outer.1.take());
    }
}

impl Ticket {
    /// Reports whether the ticket's run is the current one of this thread.
    pub fn is_valid(self) -> bool {
        TICKET.get() == self.0
    }

    fn handles(self, what: &str) -> PyResult<(Option<PacketHandle>, Net)> {
        CURRENT.with_borrow(|current| current.clone().filter(|_| self.is_valid())).ok_or_else(|| {
            PyRuntimeError::new_err(format!(
                "{what} belongs to a run of the policy that is over (or runs in another thread); \
                 keep plain values instead, such as int(pkt.tcp_dst), str(pkt.eth_src) or pkt.ipv4_src.value"
            ))
        })
    }
}

/// Returns the state of the current run of this thread, if there is one.
pub fn net() -> Option<Net> {
    CURRENT.with_borrow(|current| current.as_ref().map(|(_, net)| net.clone())).map(located)
}

/// Returns the packet of the current run of this thread, if the run has one.
pub fn packet() -> Option<PacketHandle> {
    CURRENT.with_borrow(|current| current.as_ref().and_then(|(packet, _)| packet.clone()))
}

/// Notes that the current run of this thread writes output, if there is one, and reports whether it has to be kept back
/// because nobody has sent the run's packet.
#[pyfunction]
pub fn keeps_output_back() -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_some_and(|(_, net)| net.is_live() && net.keeps_output_back()))
}

/// Asks the packet of the run of `ticket`. The error mentions `what`.
///
/// # Errors
/// `RuntimeError` if the run is not the current one of this thread, or is the run of a query.
pub fn with_packet<T>(ticket: Ticket, what: &str, ask: impl FnOnce(&PacketHandle) -> T) -> PyResult<T> {
    let handles = ticket.handles(what)?;
    match handles.0 {
        Some(packet) => {
            located(handles.1);
            Ok(ask(&packet))
        }
        None => Err(PyRuntimeError::new_err(format!("{what}: a query has no packet"))),
    }
}

/// Asks the network in the run of `ticket`.
///
/// # Errors
/// `RuntimeError` if the run is not the current one of this thread.
pub fn with_net<T>(ticket: Ticket, ask: impl FnOnce(&Net) -> T) -> PyResult<T> {
    Ok(ask(&located(ticket.handles("net")?.1)))
}

/// Gives a run that keeps an account the line of Python that asks.
fn located(net: Net) -> Net {
    if net.keeps_account() {
        net.at_line(Python::attach(source::here));
    }
    net
}
