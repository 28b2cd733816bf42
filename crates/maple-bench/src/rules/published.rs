//! The published results: Tables 1 and 2 (Voellmy et al., SIGCOMM 2013, §6.1 and §6.3).

/// A row of both tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The set's name. The sets that are available under these names differ from the paper's.
    pub set: &'static str,
    /// Filters of the set.
    pub filters: u32,
    /// Filters that the trace triggers.
    pub matched: u32,
    /// Rules after the trace.
    pub rules: u32,
    /// Priority levels.
    pub levels: u32,
    /// Changes for each final rule.
    pub mods_per_rule: f64,
    /// Traces added per second.
    pub augments_per_s: f64,
    /// Look-ups in the tree per second.
    pub lookups_per_s: u32,
    /// Hosts invalidated per second.
    pub host_invalidations_per_s: u32,
    /// Ports invalidated per second.
    pub port_invalidations_per_s: u32,
}

/// The rows of the filter sets, in the paper's order.
pub const PUBLISHED: [Published; 14] = [
    row("acl1a", [973, 604, 1006, 9], [2.25, 1180.74], [58631, 2491, 3378]),
    row("acl2a", [949, 595, 926, 85], [10.47, 508.40], [15931, 1151, 1745]),
    row("acl3a", [989, 622, 1119, 33], [2.87, 605.34], [19348, 1569, 2332]),
    row("fw1a", [856, 539, 821, 79], [17.65, 202.17], [73433, 3828, 5487]),
    row("fw2a", [812, 516, 731, 56], [10.66, 205.52], [85013, 4629, 7250]),
    row("ipc1a", [977, 597, 1052, 81], [4.20, 362.98], [18053, 1194, 1770]),
    row("ipc2a", [689, 442, 466, 26], [6.73, 621.23], [50544, 3089, 5066]),
    row("acl1b", [1883, 1187, 1874, 18], [5.35, 666.67], [40133, 1358, 2200]),
    row("acl2b", [1834, 1154, 1816, 119], [5.02, 245.92], [9809, 601, 924]),
    row("acl3b", [1966, 1234, 2575, 119], [6.13, 223.75], [9749, 626, 965]),
    row("fw1b", [1700, 1099, 1775, 113], [18.32, 68.52], [32917, 1468, 2073]),
    row("fw2b", [1747, 1126, 1762, 60], [7.69, 51.40], [25994, 1292, 1933]),
    row("ipc1b", [1935, 1227, 2097, 112], [9.49, 142.11], [10143, 518, 846]),
    row("ipc2b", [1663, 1044, 1169, 31], [10.02, 185.07], [17622, 928, 1934]),
];

/// Returns the row of the set with this name.
pub fn published(set: &str) -> Option<&'static Published> {
    PUBLISHED.iter().find(|row| row.set == set)
}

const fn row(set: &'static str, counts: [u32; 4], decimals: [f64; 2], rates: [u32; 3]) -> Published {
    let ([filters, matched, rules, levels], [mods_per_rule, augments_per_s]) = (counts, decimals);
    let [lookups_per_s, host_invalidations_per_s, port_invalidations_per_s] = rates;
    Published {
        set,
        filters,
        matched,
        rules,
        levels,
        mods_per_rule,
        augments_per_s,
        lookups_per_s,
        host_invalidations_per_s,
        port_invalidations_per_s,
    }
}
