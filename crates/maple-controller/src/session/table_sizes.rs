//! How large a switch's tables are, and how full, for people who want to know now.
//!
//! A switch with 1.0 says both in one answer. One with 1.3 is asked for its tables' counters and for their features; the
//! features of Open vSwitch's 254 tables take 380 KB, so no switch is asked before somebody wants to know. One question is
//! open at a time, and who asks meanwhile shares its answer. A switch that never answers is left alone: it isn't asked
//! again.

use std::collections::BTreeMap;

use maple_wire::Version;
use maple_wire::msg::StatsReply;
use maple_wire::msg::stats::{ReplyBody, RequestBody};

use super::describe::stats_request;
use super::{Output, Session};

/// A table of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSize {
    /// The table.
    pub table: u8,
    /// The number of its rules, also those of others; `None` if the switch does not say.
    pub rules: Option<u32>,
    /// The maximum number of its rules; `None` if the switch does not say.
    pub most: Option<u32>,
}

/// The open question.
#[derive(Debug, Default)]
pub(super) struct TableSizes {
    /// The requests without a whole answer.
    open: Vec<u32>,
    tables: BTreeMap<u8, TableSize>,
}

impl TableSizes {
    /// Whether an answer with this id belongs to the question.
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

    /// A part of an answer.
    pub(super) fn table_sizes_part(&mut self, xid: u32, reply: &StatsReply, out: &mut Vec<Output>) {
        let sizes = &mut self.table_sizes;
        match &reply.body {
            ReplyBody::Table(tables) => {
                for counted in tables {
                    let table = sizes.table(counted.table_id);
                    table.rules = Some(counted.active_count);
                    // In 1.3 this is in the features.
                    table.most = table.most.or((self.version == Version::Of10).then_some(counted.max_entries));
                }
            }
            ReplyBody::TableFeatures(all) => {
                all.iter().for_each(|features| sizes.table(features.table_id).most = Some(features.max_entries));
            }
            _ => {}
        }
        if !reply.more() {
            self.table_sizes_end(xid, out);
        }
    }

    /// An answer is whole, or there is none: what the switch has said is the answer.
    pub(super) fn table_sizes_end(&mut self, xid: u32, out: &mut Vec<Output>) {
        self.table_sizes.open.retain(|open| *open != xid);
        if self.table_sizes.open.is_empty() {
            let tables = std::mem::take(&mut self.table_sizes.tables);
            out.push(Output::TableSizes(tables.into_values().collect()));
        }
    }
}
