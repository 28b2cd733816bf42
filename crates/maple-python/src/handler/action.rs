//! Actions of switches.

use maple_wire::{Action as WireAction, Constraint, PortNo, Version, print};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};

use crate::error_text::described;
use crate::kind::{named, operand, to_raw};

/// The `max_len` of an output that sends the whole packet to the controller (`OFPCML_NO_BUFFER`).
const WHOLE: u16 = 0xffff;

/// One action.
#[pyclass(frozen, name = "Action", module = "maple.openflow", eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct Action(WireAction);

impl Action {
    /// Wraps this action.
    pub(super) fn from_wire(action: WireAction) -> Action {
        Action(action)
    }
}

/// Returns the actions of an object: a port number, an action, or several of these.
pub(super) fn actions(object: &Bound<'_, PyAny>) -> PyResult<Vec<WireAction>> {
    if let Some(action) = one(object)? {
        return Ok(vec![action]);
    }
    if object.is_instance_of::<PyString>() {
        return Err(wrong(object));
    }
    let items = object.try_iter().map_err(|_| wrong(object))?;
    items
        .map(|item| {
            let item = item?;
            one(&item)?.ok_or_else(|| wrong(&item))
        })
        .collect()
}

fn one(object: &Bound<'_, PyAny>) -> PyResult<Option<WireAction>> {
    if object.cast_exact::<PyInt>().is_ok() {
        return Ok(Some(output(port(object)?, WHOLE)));
    }
    Ok(object.cast_exact::<Action>().ok().map(|action| action.get().0.clone()))
}

fn wrong(object: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("an action is a port number or an Action, not {}", described(object)))
}

/// Returns the port with this number.
pub(super) fn port(number: &Bound<'_, PyAny>) -> PyResult<PortNo> {
    let no_port = || PyValueError::new_err(format!("{} is not a port number", described(number)));
    number.extract().map(PortNo).map_err(|_| no_port())
}

fn output(port: PortNo, max_len: u16) -> WireAction {
    WireAction::Output { port, max_len: if port == PortNo::CONTROLLER { max_len } else { 0 } }
}

#[pymethods]
impl Action {
    /// Sends the packet out of a port. To the controller, `max_len` bytes of it.
    #[staticmethod]
    #[pyo3(name = "output", signature = (port, max_len = 0xffff))]
    fn to(port: &Bound<'_, PyAny>, max_len: u16) -> PyResult<Action> {
        Ok(Action(output(self::port(port)?, max_len)))
    }

    /// Sets one field.
    #[staticmethod]
    #[pyo3(signature = (**field))]
    fn set_field(field: Option<&Bound<'_, PyDict>>) -> PyResult<Action> {
        let mut fields = field.into_iter().flatten();
        let (Some((name, value)), None) = (fields.next(), fields.next()) else {
            return Err(PyTypeError::new_err("set_field takes one field, such as set_field(eth_dst=\"…\")"));
        };
        let field = named(&name, "set_field")?;
        Ok(Action(WireAction::SetField(Constraint::exact(field, to_raw(field, operand(field, &value)?)))))
    }

    /// Pushes a VLAN tag.
    #[staticmethod]
    #[pyo3(signature = (eth_type = 0x8100))]
    fn push_vlan(eth_type: u16) -> Action {
        Action(WireAction::PushVlan(eth_type))
    }

    /// Takes the outermost VLAN tag away.
    #[staticmethod]
    fn pop_vlan() -> Action {
        Action(WireAction::PopVlan)
    }

    /// Pushes an MPLS entry.
    #[staticmethod]
    #[pyo3(signature = (eth_type = 0x8847))]
    fn push_mpls(eth_type: u16) -> Action {
        Action(WireAction::PushMpls(eth_type))
    }

    /// Removes the outermost MPLS entry. The rest has this Ethernet type.
    #[staticmethod]
    fn pop_mpls(eth_type: u16) -> Action {
        Action(WireAction::PopMpls(eth_type))
    }

    /// Lets a group process the packet.
    #[staticmethod]
    fn group(group: u32) -> Action {
        Action(WireAction::Group(group))
    }

    /// Chooses the queue for later outputs.
    #[staticmethod]
    fn set_queue(queue: u32) -> Action {
        Action(WireAction::SetQueue(queue))
    }

    /// Sends the packet out of a port through a queue.
    #[staticmethod]
    fn enqueue(port: &Bound<'_, PyAny>, queue: u32) -> PyResult<Action> {
        Ok(Action(WireAction::Enqueue { port: self::port(port)?, queue }))
    }

    /// Decrements the IP time to live.
    #[staticmethod]
    fn dec_ttl() -> Action {
        Action(WireAction::DecNwTtl)
    }

    fn __repr__(&self) -> String {
        format!("<Action {}>", print::actions(Version::Of13, std::slice::from_ref(&self.0)))
    }
}
