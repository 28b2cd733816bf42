//! The questions and answers of an account in words.

use std::fmt::{Debug, Display};

use maple_wire::Packet;

use crate::network::PortKind;
use crate::run::{AccountItem, AccountStep};
use crate::state::{Cell, CellValue, Write};
use crate::trace::{Fields as _, field_value_text};

/// The maximum number of items of a collection that are listed. Chosen: a step stays a line.
const MAX_ITEMS: usize = 8;

impl AccountStep {
    /// Returns the question as text, such as `ipv4_src=10.0.0.0/24` or `blocked[00:00:00:00:00:01]`.
    pub fn question(&self) -> String {
        match &self.what {
            AccountItem::Field(field, mask, _) if *mask == field.full_mask() => field.to_string(),
            AccountItem::Field(field, mask, _) => format!("{field} & {mask:#x}"),
            AccountItem::Test(cond, _) => cond.to_string(),
            AccountItem::Present(field, _) => format!("has {field}"),
            AccountItem::List(answer) => format!("a list of {} entries", answer.list.conds().len()),
            AccountItem::Switch(_) => "switch".into(),
            AccountItem::Frame => "the whole frame".into(),
            AccountItem::Cell(cell, _) => cell_text(cell),
            AccountItem::Path(cell, _) => cell_text(cell),
            AccountItem::Wrote(_) => "wrote".into(),
        }
    }

    /// Returns the answer as text, such as `yes` or `10.0.0.1`.
    pub fn answer(&self) -> String {
        let yes_or_no = |yes: &bool| if *yes { "yes" } else { "no" }.to_owned();
        match &self.what {
            AccountItem::Field(field, _, value) => {
                value.map_or_else(|| "absent".into(), |value| field_value_text(*field, value))
            }
            AccountItem::Test(_, answer) | AccountItem::Present(_, answer) => yes_or_no(answer),
            AccountItem::List(answer) => match answer.cond() {
                Some(cond) => format!("entry {}: {cond}", answer.first + 1),
                None => "no entry".into(),
            },
            AccountItem::Switch(dpid) => dpid.to_string(),
            AccountItem::Frame => "given".into(),
            AccountItem::Cell(_, value) => value_text(value),
            AccountItem::Path(_, exists) => if *exists { "there is one" } else { "there is none" }.into(),
            AccountItem::Wrote(write) => write_text(write),
        }
    }

    /// Returns the packet's values of the fields of a test, on which the answer depends. Other steps have none.
    pub fn evidence(&self, packet: &Packet<'_>) -> Option<String> {
        let AccountItem::Test(cond, _) = &self.what else { return None };
        let fields = cond.constraints.iter().map(|c| c.field).chain(cond.ranges.iter().map(|range| range.field));
        let values = fields.map(|field| (field, packet.get(field).or_else(|| packet.value(field))));
        let shown = |value: Option<u128>, field| {
            value.map_or_else(|| "absent".to_owned(), |value| field_value_text(field, value))
        };
        let values: Vec<String> = values.map(|(field, value)| shown(value, field)).collect();
        Some(values.join(", "))
    }

    /// Returns the cell of the state that was read, if the step read one.
    pub fn cell(&self) -> Option<&Cell> {
        if let AccountItem::Cell(cell, _) = &self.what { Some(cell) } else { None }
    }
}

/// Returns a cell as people write it.
pub(super) fn cell_text(cell: &Cell) -> String {
    match cell {
        Cell::Table(table, key) => format!("{table}[{key}]"),
        Cell::TableAll(table) => format!("all of {table}"),
        Cell::TableLen(table) => format!("the number of rows in {table}"),
        Cell::Var(name) => name.to_string(),
        Cell::HostAt(mac) => format!("where {mac} is"),
        Cell::HostAddresses(mac) => format!("addresses of {mac}"),
        Cell::HostByIp(ip) => format!("whose {ip} is"),
        Cell::Hosts => "all hosts".into(),
        Cell::Bindings { is_v6 } => format!("the {} addresses of all hosts", if *is_v6 { "IPv6" } else { "IPv4" }),
        Cell::HostsAt(at) => format!("hosts at {at}"),
        Cell::HostsOf(dpid) => format!("hosts at switch {dpid}"),
        Cell::HostsIn(ip, bits) => format!("hosts in {ip}/{bits}"),
        Cell::Switches => "all switches".into(),
        Cell::Links => "all links".into(),
        Cell::EdgePorts(dpid) => format!("edge ports of {dpid}"),
        Cell::Port(at) => format!("port {at}"),
        Cell::LinkPorts(from, to) => format!("ports of {from} that lead to {to}"),
        Cell::Speed(at) => format!("speed of {at}"),
        Cell::Rate(gauge, _) => format!("rate of {gauge:?}"),
        Cell::Path { from, to, costs: Some(costs), .. } => format!("path from {from} to {to} by {costs}"),
        Cell::Path { from, to, .. } => format!("path from {from} to {to}"),
        Cell::HasPath { from, to, .. } => format!("whether a path leads from {from} to {to}"),
        Cell::IsPlace(at) => format!("whether {at} is a place"),
        Cell::IsUp(at) => format!("whether port {at} is up"),
        Cell::CostNames => "the names of link costs".into(),
        Cell::Flood(from, _) => format!("flood from {from}"),
        Cell::Route(plan) => format!("route of {plan:?}"),
        Cell::Query(question) => format!("{question:?}"),
    }
}

fn value_text(value: &CellValue) -> String {
    match value {
        CellValue::Value(None) => "absent".into(),
        CellValue::Value(Some(value)) => value.to_string(),
        CellValue::Table(rows) => {
            join_first(rows.iter().map(|(key, value)| format!("{key}: {value}")), rows.iter().count())
        }
        CellValue::Len(len) => len.to_string(),
        CellValue::Location(at) => at.map_or_else(|| "not known".into(), |at| at.to_string()),
        CellValue::Addresses(None) | CellValue::Host(None) => "not known".into(),
        CellValue::Addresses(Some((ipv4, ipv6))) => {
            let all = ipv4.iter().map(ToString::to_string).chain(ipv6.iter().map(ToString::to_string));
            join_first(all, ipv4.len() + ipv6.len())
        }
        CellValue::Host(Some((mac, at))) => format!("{mac} at {at}"),
        CellValue::Hosts(hosts) => join_first(hosts.iter().map(|(mac, at)| format!("{mac} at {at}")), hosts.len()),
        CellValue::Bindings(all) => join_first(all.iter().map(|(ip, mac)| format!("{ip} of {mac}")), all.len()),
        CellValue::Switches(all) => join_first(all.iter().map(ToString::to_string), all.len()),
        CellValue::Links(links) => join_first(links.iter().map(|(a, b)| format!("{a} - {b}")), links.len()),
        CellValue::Ports(ports) => join_first(ports.iter().map(ToString::to_string), ports.len()),
        CellValue::Port(None) => "none".into(),
        CellValue::Port(Some(port)) => {
            let kind = match port.kind {
                PortKind::New => "new".into(),
                PortKind::Edge => "edge".into(),
                PortKind::Link(to) => format!("link to {to}"),
                PortKind::Shut { with, .. } => format!("shut, with {with}"),
                PortKind::Middlebox => "middlebox".into(),
            };
            format!("{kind}, {}", if port.up { "up" } else { "down" })
        }
        CellValue::Speed(speed) => speed.map_or_else(|| "not known".into(), |speed| format!("{speed} bit/s")),
        CellValue::Step(step) => format!("step {step}"),
        CellValue::Hops(None) => "none".into(),
        CellValue::Hops(Some(hops)) => join_first(hops.iter().map(|hop| hop.location().to_string()), hops.len()),
        CellValue::Exists(exists) => if *exists { "yes" } else { "no" }.into(),
        CellValue::NoSuchCosts => "no link has such costs".into(),
        other => short(other),
    }
}

fn write_text(write: &Write) -> String {
    match write {
        Write::Table { table, key, value: Some(value) } => format!("{table}[{key}] = {value}"),
        Write::Table { table, key, value: None } => format!("{table}[{key}] is removed"),
        Write::Var { name, value: Some(value) } => format!("{name} = {value}"),
        Write::Var { name, value: None } => format!("{name} is removed"),
        Write::Add { name, amount } => format!("{name} += {amount}"),
        other => short(other),
    }
}

/// Lists the items of a collection, at most [`MAX_ITEMS`] of them, and the number of the others.
fn join_first(items: impl Iterator<Item = impl Display>, count: usize) -> String {
    let mut all: Vec<String> = items.take(MAX_ITEMS).map(|item| item.to_string()).collect();
    if count > MAX_ITEMS {
        all.push(format!("and {} more", count - MAX_ITEMS));
    }
    if all.is_empty() { "none".into() } else { all.join(", ") }
}

fn short(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
