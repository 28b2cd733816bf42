//! A switch, its ports, and its messages other than packet-ins.

use maple_controller::session::SwitchInfo;
use maple_controller::session::apply_port_status;
use maple_wire::msg::{ErrorMsg, FlowRemoved, PortReason, PortStatus};
use maple_wire::{Message, Port, Version, print};
use parking_lot::Mutex;
use pyo3::prelude::*;

use super::matching::PyMatch;
use crate::address::Mac;

/// A switch.
#[pyclass(frozen, name = "Switch", module = "maple.openflow")]
pub struct PySwitch {
    dpid: u64,
    version: Version,
    description: String,
    ports: Mutex<Vec<Port>>,
}

/// A port of a switch.
#[pyclass(frozen, get_all, name = "Port", module = "maple.openflow")]
pub struct PyPort {
    /// Its number.
    number: u32,
    /// Its name.
    name: String,
    /// Its hardware address.
    mac: Py<Mac>,
    /// Whether packets can pass.
    is_up: bool,
}

/// A rule that was removed.
#[pyclass(frozen, name = "FlowRemoved", module = "maple.openflow")]
pub struct PyFlowRemoved(pub FlowRemoved);

/// A message that a switch refused.
#[pyclass(frozen, get_all, name = "SwitchError", module = "maple.openflow")]
pub struct SwitchError {
    /// Its type, `OFPET_*`.
    r#type: u16,
    /// Its code, by type.
    code: u16,
    /// Both in words.
    name: String,
    /// The start of the refused message.
    data: Vec<u8>,
}

impl PySwitch {
    /// Creates the object of a switch from its handshake.
    pub(super) fn new(info: &SwitchInfo) -> PySwitch {
        PySwitch {
            dpid: info.features.dpid.0,
            version: info.version,
            description: info.text(),
            ports: Mutex::new(info.ports.clone()),
        }
    }

    /// Applies a port status: a port came, went or changed.
    pub(super) fn change(&self, status: &PortStatus) {
        apply_port_status(&mut self.ports.lock(), status.clone());
    }
}

#[pymethods]
impl PySwitch {
    /// Datapath id of the switch.
    #[getter]
    fn dpid(&self) -> u64 {
        self.dpid
    }

    /// OpenFlow version that the switch speaks.
    #[getter]
    fn version(&self) -> String {
        self.version.to_string()
    }

    /// Description that the switch gave of itself.
    #[getter]
    fn description(&self) -> &str {
        &self.description
    }

    /// Ports of the switch now, by number.
    #[getter]
    fn ports(&self, py: Python<'_>) -> PyResult<Vec<PyPort>> {
        let ports = self.ports.lock().clone();
        ports.iter().map(|port| PyPort::from_port(py, port)).collect()
    }

    fn __repr__(&self) -> String {
        format!("<switch {:016x}, OpenFlow {}>", self.dpid, self.version)
    }
}

impl PyPort {
    /// Converts a port.
    pub(super) fn from_port(py: Python<'_>, port: &Port) -> PyResult<PyPort> {
        let [a, b, c, d, e, f] = port.hw_addr;
        let mac = Mac::cached(py, u64::from_be_bytes([0, 0, a, b, c, d, e, f]))?.unbind();
        Ok(PyPort { number: port.number.0, name: port.name().into_owned(), mac, is_up: port.is_up() })
    }
}

#[pymethods]
impl PyPort {
    fn __repr__(&self) -> String {
        format!("<port {} {:?}, {}>", self.number, self.name, if self.is_up { "up" } else { "down" })
    }
}

/// Returns the name of a reason.
pub(super) fn reason(reason: PortReason) -> &'static str {
    match reason {
        PortReason::Add => "add",
        PortReason::Delete => "delete",
        PortReason::Modify => "modify",
        PortReason::Other(_) => "other",
    }
}

#[pymethods]
impl PyFlowRemoved {
    /// Match of the rule: which packets it took.
    #[getter]
    fn r#match(&self) -> PyMatch {
        PyMatch(self.0.matching.clone())
    }

    /// Priority of the rule.
    #[getter]
    fn priority(&self) -> u16 {
        self.0.priority
    }

    /// Cookie of the rule.
    #[getter]
    fn cookie(&self) -> u64 {
        self.0.cookie
    }

    /// Reason why the rule is gone (`OFPRR_*`).
    #[getter]
    fn reason(&self) -> &'static str {
        match self.0.reason {
            0 => "idle",
            1 => "hard",
            2 => "delete",
            3 => "group",
            _ => "other",
        }
    }

    /// Table of the rule.
    #[getter]
    fn table(&self) -> u8 {
        self.0.table_id
    }

    /// Time for which the rule was there, in seconds.
    #[getter]
    fn duration(&self) -> f64 {
        f64::from(self.0.duration_sec) + f64::from(self.0.duration_nsec) / 1e9
    }

    /// The number of packets that the rule took.
    #[getter]
    fn packets(&self) -> u64 {
        self.0.packet_count
    }

    /// The number of bytes of the packets that the rule took.
    #[getter]
    fn bytes(&self) -> u64 {
        self.0.byte_count
    }

    fn __repr__(&self) -> String {
        format!("<FlowRemoved {} reason={}>", print::matching(Version::Of13, &self.0.matching), self.reason())
    }
}

impl SwitchError {
    /// Converts an error of a switch that speaks this version.
    pub(super) fn new(version: Version, error: &ErrorMsg) -> SwitchError {
        let name = print::error_name(version, error);
        SwitchError { r#type: error.kind, code: error.code, name, data: error.data.clone() }
    }

    /// Returns the error as text, with the message that caused it if that can be decoded.
    pub(super) fn text(&self) -> String {
        match Message::decode(&self.data) {
            Ok((header, message)) => format!("{} in answer to {}", self.name, print::message(&header, &message)),
            Err(_) => self.name.clone(),
        }
    }
}

#[pymethods]
impl SwitchError {
    fn __str__(&self) -> String {
        self.text()
    }

    fn __repr__(&self) -> String {
        format!("<SwitchError {}>", self.name)
    }
}
