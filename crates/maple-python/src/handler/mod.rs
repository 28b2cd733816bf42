//! Handlers in Python: one object for each switch, which gets its events and returns messages.
//!
//! ```text
//!  packet-ins of one read ─► attach once ─► PacketIn ─► handler.packet_in(…) ─► messages ─► Replies
//! ```
//!
//! The interpreter is entered once for a batch, not for each packet. An exception is reported with file and line and
//! ends only that call: earlier messages are sent, and the switch is still served.

mod base;
mod switch;

mod packet_in;

mod action;
mod matching;
mod messages;

mod groups;
mod statistics;

mod bench;

pub use action::Action;
pub use base::PyHandler;
pub use bench::HandlerBench;
pub use groups::{PyBand, PyBucket, PyGroupMod, PyMeterMod};
pub use matching::PyMatch;
pub use messages::{Barrier, PyFlowMod, PyPacketOut};
pub use packet_in::PyPacketIn;
pub use statistics::{
    PyAggregateStats, PyFlowStats, PyGroupDesc, PyGroupStats, PyMeterConfig, PyMeterStats, PyPortStats, PyQueueStats,
    PyStats, PyStatsRequest, PyTableStats,
};
pub use switch::{PyFlowRemoved, PyPort, PySwitch, SwitchError};

use std::sync::Arc;
use std::time::Duration;

use maple_controller::session::SwitchInfo;
use maple_handlers::{ErrorReporter, Handler, HandlerFactory, Replies, install_table_miss};
use maple_wire::msg::PacketInView;
use maple_wire::msg::{ErrorMsg, FlowRemoved, PortStatus};
use maple_wire::{Message, Version};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::type_object::PyTypeInfo;
use pyo3::types::PyString;

use crate::error_text::{ErrorTexts, described};
use crate::host;
use crate::interrupt::Watched;

/// Makes an object of a class derived from `maple.Handler` for each switch.
pub struct PythonHandlers {
    class: Py<PyAny>,
    limit: Duration,
    reported: Arc<ErrorTexts>,
}

impl PythonHandlers {
    /// Creates handlers of this class. A call may take `limit`.
    pub fn new(class: &Bound<'_, PyAny>, limit: Duration) -> PythonHandlers {
        PythonHandlers {
            class: class.clone().unbind(),
            limit,
            reported: Arc::new(ErrorTexts::new("the handler", limit)),
        }
    }

    /// Makes the handler of a switch.
    ///
    /// # Errors
    /// The error of Python if the switch's object can't be made. An error of the class itself is reported to `errors`.
    pub fn make(&self, py: Python<'_>, info: &SwitchInfo, errors: ErrorReporter) -> PyResult<PythonHandler> {
        let switch = Py::new(py, PySwitch::new(info))?;
        let (limit, reported) = (self.limit, Arc::clone(&self.reported));
        let mut handler = PythonHandler { object: None, switch, limit, reported, errors, hears_errors: false };
        match base::born(py, self.class.bind(py), &handler.switch, limit) {
            Ok(object) => {
                let own = object.get_type().getattr(intern!(py, "error"))?;
                handler.hears_errors = !own.is(py.get_type::<PyHandler>().getattr(intern!(py, "error"))?);
                handler.object = Some(object.cast_into::<PyHandler>()?.unbind());
            }
            Err(error) => handler.complain(py, &error),
        }
        Ok(handler)
    }
}

impl HandlerFactory for PythonHandlers {
    fn handler(&self, switch: &SwitchInfo, errors: ErrorReporter) -> Box<dyn Handler> {
        Python::attach(|py| match self.make(py, switch, errors.clone()) {
            Ok(handler) => Box::new(handler) as Box<dyn Handler>,
            Err(error) => {
                errors.report(self.reported.text(py, &error));
                Box::new(NoHandler)
            }
        })
    }

    /// Keeps the thread attached to the interpreter, so that a batch only has to take the lock.
    fn on_thread(&self, worker: &mut (dyn FnMut() + Send)) {
        Python::attach(|py| host::on_worker(py, worker));
    }
}

/// The handler of a switch whose Python handler could not be made, which was reported. It does nothing.
struct NoHandler;

impl Handler for NoHandler {
    fn packet_in(&mut self, _: &PacketInView<'_>, _: &mut Replies) {}
}

/// One switch's handler.
pub struct PythonHandler {
    /// The object. `None` if it could not be made.
    object: Option<Py<PyHandler>>,
    switch: Py<PySwitch>,
    limit: Duration,
    reported: Arc<ErrorTexts>,
    errors: ErrorReporter,
    /// Whether the class has a method `error` of its own.
    hears_errors: bool,
}

impl PythonHandler {
    /// Returns the Python object, if it could be made.
    pub fn object(&self) -> Option<&Py<PyHandler>> {
        self.object.as_ref()
    }

    fn complain(&self, py: Python<'_>, error: &PyErr) {
        self.errors.report(self.reported.text(py, error));
    }

    /// Calls a method and sends the messages that it returns.
    fn call<'py>(
        &self,
        py: Python<'py>,
        method: &Bound<'py, PyString>,
        arguments: impl PyCallArgs<'py>,
        out: &mut Replies,
    ) {
        let Some(handler) = &self.object else { return };
        let handler = handler.bind(py);
        let result = Watched::new(py, self.limit).and_then(|watched| {
            let answer = handler.as_any().call_method1(method, arguments)?;
            self.say(handler, method, &answer, out)?;
            drop(watched);
            Ok(())
        });
        if let Err(error) = result {
            self.complain(py, &error);
        }
        if let Some(time) = handler.get().take_wish() {
            out.wake_after(time);
        }
    }

    /// Sends the result of a method: no message, one, or several.
    fn say(
        &self,
        handler: &Bound<'_, PyHandler>,
        method: &Bound<'_, PyString>,
        answer: &Bound<'_, PyAny>,
        out: &mut Replies,
    ) -> PyResult<()> {
        if answer.is_none() || self.say_one(handler, method, answer, out) {
            return Ok(());
        }
        // A text is a sequence of texts, and an error about its first letter would be useless, so it is not iterated.
        let messages = if answer.is_instance_of::<PyString>() { None } else { answer.try_iter().ok() };
        let Some(messages) = messages else { return Err(no_message(handler, method, answer)) };
        for message in messages {
            let message = message?;
            if !self.say_one(handler, method, &message, out) {
                return Err(no_message(handler, method, &message));
            }
        }
        Ok(())
    }

    /// Sends one message. Returns `false` if the object is not a message. A message that the switch's version can't
    /// express is left out and reported; later messages are sent.
    fn say_one(
        &self,
        handler: &Bound<'_, PyHandler>,
        method: &Bound<'_, PyString>,
        message: &Bound<'_, PyAny>,
        out: &mut Replies,
    ) -> bool {
        let request;
        let messages = if let Ok(packet_out) = message.cast_exact::<PyPacketOut>() {
            [Some(packet_out.get().message()), None]
        } else if let Ok(flow_mod) = message.cast_exact::<PyFlowMod>() {
            [Some(flow_mod.get().message()), flow_mod.get().packet_out()]
        } else if let Ok(group_mod) = message.cast_exact::<PyGroupMod>() {
            [Some(group_mod.get().message()), None]
        } else if let Ok(meter_mod) = message.cast_exact::<PyMeterMod>() {
            [Some(meter_mod.get().message()), None]
        } else if let Ok(asked) = message.cast_exact::<PyStatsRequest>() {
            request = asked.get().message(out.version());
            [Some(&request), None]
        } else if message.is_exact_instance_of::<Barrier>() {
            [Some(&Message::BarrierRequest), None]
        } else {
            return false;
        };
        for said in messages.into_iter().flatten() {
            if let Err(error) = out.try_request(said) {
                self.complain(message.py(), &inexpressible(handler, method, message, out.version(), &error));
            }
        }
        true
    }

    /// Makes an object for an event, and calls a method with it.
    fn notify<'py, T: PyTypeInfo>(
        &self,
        py: Python<'py>,
        method: &Bound<'py, PyString>,
        event: PyResult<Bound<'py, T>>,
        out: &mut Replies,
    ) {
        match event {
            Ok(event) => self.call(py, method, (event,), out),
            Err(error) => self.complain(py, &error),
        }
    }
}

impl Handler for PythonHandler {
    fn switch_up(&mut self, _: &SwitchInfo, out: &mut Replies) {
        Python::attach(|py| {
            let Some(object) = &self.object else { return };
            match object.bind(py).getattr(intern!(py, "table_miss")).and_then(|wish| wish.is_truthy()) {
                Ok(true) => install_table_miss(out),
                Ok(false) => {}
                Err(error) => self.complain(py, &error),
            }
            self.call(py, intern!(py, "switch_up"), (), out);
        });
    }

    fn packet_in(&mut self, packet: &PacketInView<'_>, out: &mut Replies) {
        self.packet_ins(std::slice::from_ref(packet), out);
    }

    fn packet_ins(&mut self, batch: &[PacketInView<'_>], out: &mut Replies) {
        let version = out.version();
        Python::attach(|py| {
            let method = intern!(py, "packet_in");
            for packet in batch {
                self.notify(py, method, Bound::new(py, PyPacketIn::new(version, packet)), out);
            }
        });
    }

    fn port_status(&mut self, status: &PortStatus, out: &mut Replies) {
        Python::attach(|py| {
            self.switch.get().change(status);
            let event = PyPort::from_port(py, &status.port).and_then(|port| Bound::new(py, port));
            match event {
                Ok(port) => self.call(py, intern!(py, "port_status"), (port, switch::reason(status.reason)), out),
                Err(error) => self.complain(py, &error),
            }
        });
    }

    fn flow_removed(&mut self, removed: &FlowRemoved, out: &mut Replies) {
        Python::attach(|py| {
            self.notify(py, intern!(py, "flow_removed"), Bound::new(py, PyFlowRemoved(removed.clone())), out);
        });
    }

    fn reply(&mut self, _: u32, message: &Message, out: &mut Replies) {
        Python::attach(|py| match message {
            Message::Error(error) if self.hears_errors => {
                self.notify(py, intern!(py, "error"), Bound::new(py, SwitchError::new(out.version(), error)), out);
            }
            Message::Error(error) => self.errors.report(refused(out, error).into()),
            Message::BarrierReply => self.call(py, intern!(py, "barrier"), (), out),
            Message::StatsReply(reply) => match PyStats::new(py, out.version(), reply) {
                Ok(Some(stats)) => self.notify(py, intern!(py, "stats"), Bound::new(py, stats), out),
                // Handlers cannot request other kinds.
                Ok(None) => {}
                Err(error) => self.complain(py, &error),
            },
            // Handlers do not receive other messages.
            _ => {}
        });
    }

    fn timer(&mut self, out: &mut Replies) {
        Python::attach(|py| self.call(py, intern!(py, "timer"), (), out));
    }

    fn switch_down(&mut self) {
        // The connection is closed, so its messages are dropped.
        Python::attach(|py| self.call(py, intern!(py, "switch_down"), (), &mut Replies::default()));
    }
}

/// Returns the report of an error of the switch, with the message that caused it.
fn refused(out: &Replies, error: &ErrorMsg) -> String {
    format!("the switch refused a message: {} (a method `error` of the handler would hear it)", {
        SwitchError::new(out.version(), error).text()
    })
}

/// Returns the error about a message that the switch's version can't express.
fn inexpressible(
    handler: &Bound<'_, PyHandler>,
    method: &Bound<'_, PyString>,
    message: &Bound<'_, PyAny>,
    version: Version,
    error: &maple_wire::Error,
) -> PyErr {
    PyValueError::new_err(format!(
        "{}the handler returned {}, which OpenFlow {version} can't say: {error}",
        place(handler, method),
        message.repr().map(|text| text.to_string()).unwrap_or_default(),
    ))
}

fn no_message(handler: &Bound<'_, PyHandler>, method: &Bound<'_, PyString>, answer: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "{}{method} returned {}, which is not a message; messages are pkt.out(…), pkt.flood(), PacketOut(…), \
         FlowMod.add(…), FlowMod.modify(…), FlowMod.delete(…), GroupMod.add(…), MeterMod.add(…), StatsRequest.flows(…), \
         Barrier(), and lists of these",
        place(handler, method),
        described(answer),
    ))
}

/// Returns the first line of a handler's method, for an error that no line of it raised.
fn place(handler: &Bound<'_, PyHandler>, method: &Bound<'_, PyString>) -> String {
    let first_line = || -> PyResult<String> {
        let code = handler.getattr(method)?.getattr("__code__")?;
        let (file, line) = (code.getattr("co_filename")?, code.getattr("co_firstlineno")?);
        Ok(format!("File \"{file}\", line {line}, in {}: ", code.getattr("co_name")?))
    };
    // A method that is not a Python function has no line.
    first_line().unwrap_or_default()
}
