//! A bench for handlers: one simulated switch.

use std::time::Duration;

use maple_controller::Notice;
use maple_controller::session::SwitchInfo;
use maple_handlers::{ErrorReporter, Handler, Replies};
use maple_wire::msg::PacketInView;
use maple_wire::msg::{ErrorMsg, Features, FlowRemoved, Frames, NO_BUFFER, PacketIn, PortReason, PortStatus};
use maple_wire::{Dpid, Message, Port, PortNo, Version, print};
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::matching::PyMatch;
use super::statistics::decoded;
use super::{PythonHandler, PythonHandlers};

/// A switch with one handler. Each call gives the messages that the switch gets, as `maple decode` prints them.
#[pyclass(frozen, module = "maple.testing")]
pub struct HandlerBench {
    version: Version,
    handler: Mutex<PythonHandler>,
    reported: crossbeam_channel::Receiver<Notice>,
    /// The messages that the switch got when it connected.
    #[pyo3(get)]
    started: Vec<String>,
}

impl HandlerBench {
    /// Calls the handler, and returns its messages.
    fn call(&self, call: impl FnOnce(&mut PythonHandler, &mut Replies)) -> Vec<String> {
        let mut out = Replies::new(self.version);
        // The handler cannot call back into the bench, because it does not know it.
        call(&mut self.handler.lock(), &mut out);
        texts(&out)
    }
}

/// Returns the messages as text, without their transaction ids.
fn texts(out: &Replies) -> Vec<String> {
    let message = |frame: &[u8]| {
        let (header, message) = Message::decode(frame).ok()?;
        let text = print::message(&header, &message);
        Some(text.replace(&format!(" (xid={:#x}):", header.xid), ""))
    };
    Frames::new(out.bytes()).flatten().filter_map(|(_, frame)| message(frame)).collect()
}

fn switch(version: Version, dpid: u64, ports: Vec<u32>) -> SwitchInfo {
    let port = |n: u32| {
        let [a, b, c, d] = n.to_be_bytes();
        Port::new(PortNo(n), [2, 0, a, b, c, d], &format!("port{n}"))
    };
    let features = Features { actions: 0xfff, ..Features::new(Dpid(dpid), 1) };
    let (ports, description) = (ports.into_iter().map(port).collect(), Default::default());
    SwitchInfo { version, features, ports, description, has_bundles: false }
}

#[pymethods]
impl HandlerBench {
    #[new]
    #[pyo3(signature = (handler, dpid = 1, ports = vec![1, 2], of = "1.3", time_limit = 1.0))]
    fn new(
        py: Python<'_>,
        handler: &Bound<'_, PyAny>,
        dpid: u64,
        ports: Vec<u32>,
        of: &str,
        time_limit: f64,
    ) -> PyResult<HandlerBench> {
        let wrong = |_| PyValueError::new_err(format!("of is \"1.0\" or \"1.3\", not {of:?}"));
        let version = of.parse().map_err(wrong)?;
        let limit = Duration::try_from_secs_f64(time_limit)
            .map_err(|_| PyValueError::new_err("time_limit is a positive number of seconds"))?;
        let info = switch(version, dpid, ports);
        let (errors, reported) = ErrorReporter::detached(Dpid(dpid));
        let mut handler = PythonHandlers::new(handler, limit).make(py, &info, errors)?;
        let mut out = Replies::new(version);
        handler.switch_up(&info, &mut out);
        Ok(HandlerBench { version, handler: Mutex::new(handler), reported, started: texts(&out) })
    }

    /// The handler.
    #[getter]
    fn handler(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let handler = self.handler.lock();
        let object = handler.object().map(|object| object.clone_ref(py).into_any());
        object.ok_or_else(|| PyRuntimeError::new_err("the handler could not be made; errors() says why"))
    }

    /// Returns the errors since the last question.
    fn errors(&self) -> Vec<String> {
        self.reported.try_iter().map(|notice| notice.to_string()).collect()
    }

    /// Pretends that the switch sends a frame that came in at a port. With a `buffer_id` it keeps the frame.
    #[pyo3(signature = (frame, port = 1, buffer_id = None))]
    fn packet_in(&self, frame: Vec<u8>, port: u32, buffer_id: Option<u32>) -> PyResult<Vec<String>> {
        let total_len = u16::try_from(frame.len()).map_err(|_| PyValueError::new_err("the frame is too long"))?;
        let message = Message::PacketIn(PacketIn {
            buffer_id: buffer_id.unwrap_or(NO_BUFFER),
            total_len,
            ..PacketIn::new(port, frame)
        });
        let wrong = |error: maple_wire::Error| PyValueError::new_err(error.to_string());
        let bytes = message.to_bytes(self.version, 0).map_err(wrong)?;
        let view = PacketInView::new_checked(self.version, &bytes).map_err(wrong)?;
        Ok(self.call(|handler, out| handler.packet_ins(&[view], out)))
    }

    /// Pretends that a port came ("add"), went ("delete") or changed ("modify").
    #[pyo3(signature = (number, reason = "modify", up = true))]
    fn port_status(&self, number: u32, reason: &str, up: bool) -> PyResult<Vec<String>> {
        let reason = match reason {
            "add" => PortReason::Add,
            "delete" => PortReason::Delete,
            "modify" => PortReason::Modify,
            _ => return Err(PyValueError::new_err("reason is \"add\", \"delete\" or \"modify\"")),
        };
        let state = if up { 0 } else { Port::STATE_LINK_DOWN };
        let port = Port { state, ..Port::new(PortNo(number), [2, 0, 0, 0, 0, 1], &format!("port{number}")) };
        Ok(self.call(|handler, out| handler.port_status(&PortStatus { reason, port }, out)))
    }

    /// Pretends that a rule expired because no packet matched it.
    #[pyo3(signature = (r#match, priority = 0x8000, cookie = 0))]
    fn flow_removed(&self, r#match: &Bound<'_, PyMatch>, priority: u16, cookie: u64) -> Vec<String> {
        let removed = FlowRemoved {
            cookie,
            priority,
            reason: 0,
            table_id: 0,
            duration_sec: 1,
            duration_nsec: 500_000_000,
            idle_timeout: 1,
            hard_timeout: 0,
            packet_count: 2,
            byte_count: 128,
            matching: r#match.get().0.clone(),
        };
        self.call(|handler, out| handler.flow_removed(&removed, out))
    }

    /// Pretends that the switch refuses a message.
    #[pyo3(signature = (r#type, code, data = Vec::new()))]
    fn error(&self, r#type: u16, code: u16, data: Vec<u8>) -> Vec<String> {
        let error = Message::Error(ErrorMsg { kind: r#type, code, data });
        self.call(|handler, out| handler.reply(0, &error, out))
    }

    /// Pretends that the switch answers a barrier.
    fn barrier(&self) -> Vec<String> {
        self.call(|handler, out| handler.reply(0, &Message::BarrierReply, out))
    }

    /// Pretends that the switch answers a statistics request with this encoded message.
    fn stats(&self, message: &[u8]) -> PyResult<Vec<String>> {
        let message = decoded(self.version, message)?;
        Ok(self.call(|handler, out| handler.reply(0, &message, out)))
    }

    /// Pretends that the time has come that the handler asked for.
    fn timer(&self) -> Vec<String> {
        self.call(|handler, out| handler.timer(out))
    }

    /// Pretends that the connection is closed.
    fn switch_down(&self) {
        self.call(|handler, _| handler.switch_down());
    }
}
