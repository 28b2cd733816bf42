//! A packet-in: one attribute for each field, with its plain value.

use maple_wire::msg::PacketInView;
use maple_wire::msg::{NO_BUFFER, PacketIn, PacketInReason, PacketOut};
use maple_wire::{Action, Constraint, Match, MatchField, Message, Version, print};
use maple_wire::{Field, FieldSet, Packet, PortNo};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use super::action;
use super::matching::PyMatch;
use super::messages::PyPacketOut;
use crate::kind::{FieldKind, from_raw, named};

/// The fields that an exact match contains in 1.3, if the packet has them, besides those that 1.0 can match.
const ONLY_OF13: [Field; 6] =
    [Field::SctpSrc, Field::SctpDst, Field::Ipv6Src, Field::Ipv6Dst, Field::Icmpv6Type, Field::Icmpv6Code];

/// A packet that a switch sent.
#[pyclass(frozen, name = "PacketIn", module = "maple.openflow")]
pub struct PyPacketIn {
    version: Version,
    /// The whole message.
    message: Box<[u8]>,
    /// The position of the frame in the message, in bytes.
    data: usize,
    in_port: u32,
    buffer_id: u32,
    total_len: u16,
}

impl PyPacketIn {
    /// Copies this packet-in.
    #[inline]
    pub fn new(version: Version, packet: &PacketInView<'_>) -> PyPacketIn {
        let message: Box<[u8]> = packet.message().into();
        let in_port = packet.in_port().unwrap_or(PortNo::ANY).0;
        let (buffer_id, total_len) = (packet.buffer_id(), packet.total_len());
        PyPacketIn { version, data: message.len() - packet.data().len(), message, in_port, buffer_id, total_len }
    }

    fn frame(&self) -> &[u8] {
        &self.message[self.data..]
    }

    /// Returns the message, which was checked when it arrived.
    fn view(&self) -> PyResult<PacketInView<'_>> {
        PacketInView::new_checked(self.version, &self.message).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn packet(&self) -> Packet<'_> {
        Packet::with_wire_len(self.frame(), self.in_port, self.total_len.into())
    }

    /// Returns the value of a field in the form of matches.
    fn raw(&self, field: Field) -> PyResult<Option<u128>> {
        match field {
            Field::InPort => Ok(Some(self.in_port.into())),
            Field::InPhyPort | Field::Metadata | Field::TunnelId => {
                Ok(self.view()?.pipeline_field(field).map(|constraint| constraint.value))
            }
            _ => Ok(self.packet().get(field)),
        }
    }

    fn get<'py>(&self, py: Python<'py>, field: Field) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.raw(field)?.and_then(|raw| from_raw(field, raw));
        value.map(|value| FieldKind::from_field(field).to_python(py, value)).transpose()
    }

    /// Returns the packet-out that does these actions to the packet: to the buffered packet if the switch has one, else
    /// to the frame itself.
    pub(super) fn sent(&self, actions: Vec<Action>) -> Message {
        let buffer_id = self.buffer_id;
        let data = if buffer_id == NO_BUFFER { self.frame().to_vec() } else { Vec::new() };
        Message::PacketOut(PacketOut { buffer_id, in_port: PortNo(self.in_port), actions, data })
    }

    /// Returns the id of the switch's buffer for the packet, if there is one.
    pub(super) fn buffer(&self) -> Option<u32> {
        Some(self.buffer_id).filter(|id| *id != NO_BUFFER)
    }

    /// Returns a match of all fields that a switch of this version can match.
    fn match_all(&self) -> Match {
        let packet = self.packet();
        let more = if self.version == Version::Of10 { &[][..] } else { &ONLY_OF13 };
        let fields = FieldSet::OF10.iter().chain(more.iter().copied());
        canonical(fields.filter_map(|field| Some(Constraint::exact(field, packet.get(field)?))).collect())
    }

    /// Returns a match of these fields and their prerequisites.
    fn match_these(&self, names: &Bound<'_, PyTuple>) -> PyResult<Match> {
        let mut constraints = Vec::with_capacity(names.len());
        for name in names.iter_borrowed() {
            let field = named(&name, "match")?;
            let value = self.raw(field)?.ok_or_else(|| PyValueError::new_err(format!("the packet has no {field}")))?;
            constraints.push(Constraint::exact(field, value));
        }
        // The list grows in the loop: prerequisites have prerequisites.
        let mut next = 0;
        while let Some(Constraint { field, .. }) = constraints.get(next).copied() {
            for needed in field.prerequisites().iter().flat_map(|all| all.iter()).map(|p| p.field) {
                constraints.extend(self.raw(needed)?.map(|value| Constraint::exact(needed, value)));
            }
            next += 1;
        }
        Ok(canonical(constraints))
    }
}

/// Returns the match with these constraints, some of which can occur twice.
fn canonical(mut constraints: Vec<Constraint>) -> Match {
    constraints.sort_unstable_by_key(|constraint| constraint.field);
    constraints.dedup_by_key(|constraint| constraint.field);
    Match { fields: constraints.into_iter().map(MatchField::Known).collect() }
}

macro_rules! getters {
    ($(#[doc = $doc:literal] $name:ident => $field:ident $facts:tt;)*) => {
        #[pymethods]
        impl PyPacketIn {
            $(#[doc = $doc]
            #[getter]
            fn $name<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
                self.get(py, Field::$field)
            })*

            /// The frame, or its first bytes.
            #[getter]
            fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
                PyBytes::new(py, self.frame())
            }

            /// The length of the whole frame, in bytes.
            #[getter]
            fn total_len(&self) -> u16 {
                self.total_len
            }

            /// Place where the switch keeps the frame.
            #[getter]
            fn buffer_id(&self) -> Option<u32> {
                self.buffer()
            }

            /// Reason why the switch sent the frame.
            #[getter]
            fn reason(&self) -> PyResult<&'static str> {
                Ok(match self.view()?.reason() {
                    PacketInReason::NoMatch => "no match",
                    PacketInReason::Action => "action",
                    PacketInReason::InvalidTtl => "invalid ttl",
                    PacketInReason::Other(_) => "other",
                })
            }

            /// The table of the rule that sent it.
            #[getter]
            fn table(&self) -> PyResult<u8> {
                Ok(self.view()?.table_id())
            }

            /// The cookie of the rule that sent it.
            #[getter]
            fn cookie(&self) -> PyResult<u64> {
                Ok(self.view()?.cookie())
            }

            /// Returns a packet-out that does this with the frame.
            fn out(&self, actions: &Bound<'_, PyAny>) -> PyResult<PyPacketOut> {
                Ok(PyPacketOut::new(self.sent(action::actions(actions)?)))
            }

            /// Returns a packet-out of the frame to all ports but the one it came in by.
            fn flood(&self) -> PyPacketOut {
                PyPacketOut::new(self.sent(vec![Action::output(PortNo::FLOOD)]))
            }

            /// Returns a match of these fields of the frame, or of all if there are no names.
            #[pyo3(signature = (*fields))]
            fn r#match(&self, fields: &Bound<'_, PyTuple>) -> PyResult<PyMatch> {
                let matching = if fields.is_empty() { self.match_all() } else { self.match_these(fields)? };
                Ok(PyMatch(matching))
            }

            fn __repr__(&self) -> PyResult<String> {
                let packet_in = PacketIn::parse(&self.view()?).map_err(|e| PyValueError::new_err(e.to_string()))?;
                Ok(format!("<PacketIn in_port={} {}>", self.in_port, print::frame(&packet_in.data)))
            }
        }
    };
}

maple_wire::for_all_fields!(getters);
