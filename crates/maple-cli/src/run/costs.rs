//! Link costs from files: those of `--costs`, and those of the configuration, which have precedence.

use std::collections::{BTreeMap, BTreeSet};

use maple_core::network::LinkName;
use maple_core::state::{Name, Write, Writer};

use crate::link_costs;
use crate::options::RunOptions;

/// Costs with their writers, and the names of link costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    names: BTreeSet<Name>,
    costs: BTreeMap<(Name, LinkName), (u64, Writer)>,
}

impl Costs {
    /// Reads the costs that these options give.
    ///
    /// # Errors
    /// If the file of `--costs` is wrong.
    pub fn from_options(options: &RunOptions) -> anyhow::Result<Costs> {
        let mut all = Costs::default();
        if let Some(file) = &options.costs {
            all.take(link_costs::read(file)?, &Writer::File(file.display().to_string().into()));
        }
        for cost in &options.network.costs {
            all.take(cost.writes.clone(), &Writer::File(cost.at.to_string().into()));
        }
        Ok(all)
    }

    fn take(&mut self, writes: Vec<Write>, by: &Writer) {
        for write in writes {
            match write {
                Write::CostName(name) => drop(self.names.insert(name)),
                Write::Cost { name, link, cost: Some(cost) } => {
                    self.costs.insert((name, link), (cost, by.clone()));
                }
                _ => {}
            }
        }
    }

    /// Returns the writes that lead from `before` to these costs, by writer. A cost that no file has any more is reset
    /// to 1, and `by` is its writer.
    pub fn since(&self, before: &Costs, by: &Writer) -> Vec<(Writer, Vec<Write>)> {
        let mut writes = Vec::new();
        let names = self.names.difference(&before.names).cloned().map(Write::CostName).collect::<Vec<_>>();
        if !names.is_empty() {
            writes.push((by.clone(), names));
        }
        let gone = before.costs.keys().filter(|key| !self.costs.contains_key(key));
        let gone: Vec<Write> =
            gone.map(|(name, link)| Write::Cost { name: name.clone(), link: *link, cost: None }).collect();
        if !gone.is_empty() {
            writes.push((by.clone(), gone));
        }
        for ((name, link), (cost, writer)) in &self.costs {
            let key = (name.clone(), *link);
            if before.costs.get(&key).is_none_or(|(old, _)| old != cost) {
                writes.push((writer.clone(), vec![Write::Cost { name: name.clone(), link: *link, cost: Some(*cost) }]));
            }
        }
        writes
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::Dpid;

    use super::*;

    #[test]
    fn only_what_differs_is_written_and_what_is_gone_costs_one() {
        let link = |n| LinkName::Switches(Dpid(n), Dpid(9));
        let by = Writer::File("m.toml".into());
        let costs = |all: &[(u64, u64)]| {
            let mut costs = Costs::default();
            let cost = |(n, cost): &(u64, u64)| Write::Cost { name: "w".into(), link: link(*n), cost: Some(*cost) };
            costs.take([Write::CostName("w".into())].into_iter().chain(all.iter().map(cost)).collect(), &by);
            costs
        };
        let (before, now) = (costs(&[(1, 5), (2, 6), (3, 7)]), costs(&[(1, 5), (2, 8)]));
        let writes: Vec<Write> = now.since(&before, &by).into_iter().flat_map(|(_, writes)| writes).collect();
        let cost = |n, cost| Write::Cost { name: "w".into(), link: link(n), cost };
        assert_eq!(writes, [cost(3, None), cost(2, Some(8))]);
        assert_eq!(now.since(&now, &by), []);
        assert_eq!(now.since(&Costs::default(), &by)[0].1, [Write::CostName("w".into())]);
    }
}
