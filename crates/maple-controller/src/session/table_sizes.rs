//! Reads the sizes of a switch's tables, and how full they are, when people ask for them.
//!
//! A 1.0 switch reports both in one answer. A 1.3 switch is asked for its tables' counters and for their features. The
//! features of Open vSwitch's 254 tables take 380 KB, so no switch is asked before somebody wants to know. One question
//! is open at a time, and later ones share its answer. A switch that never answers is not asked again.

use std::collections::BTreeMap;

use maple_wire::Version;
use maple_wire::msg::StatsReply;
use maple_wire::msg::stats::{ReplyBody, RequestBody};

use super::describe::stats_request;
use super::{Output, ProtocolWarning, Session};

/// A table of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSize {
    /// The table's number.
    pub table: u8,
    /// The number of its rules, also those of other controllers; `None` if the switch does not report it.
    pub rules: Option<u32>,
    /// The maximum number of its rules; `None` if the switch does not report it.
    pub most: Option<u32>,
}

/// The open question about a switch's tables.
#[derive(Debug, Default)]
pub(super) struct TableSizes {
    /// The transaction ids of the requests without a whole answer.
    open: Vec<u32>,
    tables: BTreeMap<u8, TableSize>,
}

impl TableSizes {
    /// Reports whether an answer with this id belongs to the question.
    pub(super) fn awaits(&self, xid: u32) -> bool {
        self.open.contains(&xid)
    }

    fn table(&mut self, table: u8) -> &mut TableSize {
        self.tables.entry(table).or_insert(TableSize { table, ..TableSize::default() })
    }
}

impl Session {
    /// Asks the switch for the sizes of its tables. [`Output::TableSizes`] follows, if it answers.
    pub fn ask_for_table_sizes(&mut self, out: &mut Vec<Output>) {
        if !self.table_sizes.open.is_empty() {
            return;
        }
        let requests = match self.version {
            Version::Of10 => vec![RequestBody::Table],
            Version::Of13 => vec![RequestBody::Table, RequestBody::TableFeatures(Vec::new())],
        };
        let open = requests.into_iter().map(|request| self.request(stats_request(request), out)).collect();
        self.table_sizes = TableSizes { open, tables: BTreeMap::new() };
    }

    /// Handles a part of an answer.
    pub(super) fn on_table_sizes_part(&mut self, xid: u32, reply: &StatsReply, out: &mut Vec<Output>) {
        let sizes = &mut self.table_sizes;
        match &reply.body {
            ReplyBody::Table(tables) => {
                for counted in tables {
                    let table = sizes.table(counted.table_id);
                    table.rules = Some(counted.active_count);
                    // A 1.3 switch reports this with the features.
                    table.most = table.most.or((self.version == Version::Of10).then_some(counted.max_entries));
                }
            }
            ReplyBody::TableFeatures(all) => {
                all.iter().for_each(|features| sizes.table(features.table_id).most = Some(features.max_entries));
            }
            _ => self.warn(ProtocolWarning::OtherStatistics, out),
        }
        if !reply.more() {
            self.end_table_sizes(xid, out);
        }
    }

    /// Ends a request, answered or not. After the last one, outputs what the switch has reported.
    pub(super) fn end_table_sizes(&mut self, xid: u32, out: &mut Vec<Output>) {
        self.table_sizes.open.retain(|open| *open != xid);
        if self.table_sizes.open.is_empty() {
            let tables = std::mem::take(&mut self.table_sizes.tables);
            out.push(Output::TableSizes(tables.into_values().collect()));
        }
    }
}
