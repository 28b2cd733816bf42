//! The styles of filter sets: shares of prefix lengths, protocols, ports, and the shape of their networks.
//!
//! The figures are rounded measurements of published sets of these styles (`docs/results/rules.md` compares them). They
//! are weights, so a column need not sum to any particular number.

use maple_wire::ip_proto;
use std::fmt;
use std::str::FromStr;

/// A kind of filter set, as ClassBench names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Style {
    /// Access control list: long prefixes on both sides, TCP services, hardly any overlap.
    Acl,
    /// Firewall: one side often matches everything, so very many filters overlap.
    Fw,
    /// IP chain: all lengths, all kinds of ports.
    Ipc,
}

/// A weight and its subject.
pub(super) type Weighted<T> = (u32, T);

/// The distributions of a style.
pub(super) struct Shape {
    /// Weights of the classes of `statistics::LENGTHS`: a row for each class of source prefixes, a column for each
    /// class of destination prefixes.
    pub(super) classes: [[u32; 5]; 5],
    /// Lengths of source prefixes within each class.
    pub(super) src_lengths: [&'static [Weighted<u8>]; 5],
    /// Lengths of destination prefixes within each class.
    pub(super) dst_lengths: [&'static [Weighted<u8>]; 5],
    /// Protocol (`None` is any), source ports, destination ports.
    pub(super) services: &'static [Weighted<(Option<u8>, Ports, Ports)>],
    /// The percentage of TCP filters that match flags.
    pub(super) flags: u32,
    /// The shape of the source networks.
    pub(super) src_space: Space,
    /// The shape of the destination networks.
    pub(super) dst_space: Space,
}

/// The shape of an address trie.
#[derive(Clone, Copy)]
pub(super) struct Space {
    /// The percentage of nodes with two children, in each of the four bytes of an address.
    pub(super) branching: [u32; 4],
    /// The probability of the fuller of two children, in percent.
    pub(super) skew: u32,
}

/// A class of port ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    /// 0 to 65535.
    All,
    /// 1024 to 65535.
    High,
    /// One well-known port.
    One,
    /// A few ports.
    Some,
}

use Ports::{All, High, One, Some as Few};

const ANY_LENGTH: &[Weighted<u8>] = &[(1, 0)];

const TCP: Option<u8> = Some(ip_proto::TCP);
const UDP: Option<u8> = Some(ip_proto::UDP);
const ICMP: Option<u8> = Some(ip_proto::ICMP);
const GRE: Option<u8> = Some(47);

const ACL: Shape = Shape {
    classes: [[0, 5, 0, 0, 0], [1, 3, 0, 0, 0], [0, 20, 9, 17, 57], [0, 10, 33, 2, 57], [0, 0, 113, 105, 568]],
    src_lengths: [
        ANY_LENGTH,
        &[(1, 1), (1, 7)],
        &[(71, 23), (28, 22), (1, 21)],
        &[(43, 30), (42, 24), (9, 29), (6, 25)],
        &[(68, 32), (32, 31)],
    ],
    dst_lengths: [
        ANY_LENGTH,
        &[(19, 14), (16, 1), (14, 15), (11, 5), (8, 8), (8, 4)],
        &[(45, 22), (26, 23), (20, 21), (5, 16), (3, 17)],
        &[(39, 30), (23, 25), (22, 24), (6, 28), (4, 29), (4, 26)],
        &[(75, 32), (25, 31)],
    ],
    services: &[
        (61, (TCP, All, One)),
        (17, (TCP, All, All)),
        (10, (TCP, All, Few)),
        (8, (None, All, All)),
        (3, (ICMP, All, All)),
        (1, (UDP, All, One)),
    ],
    flags: 21,
    src_space: Space { branching: [22, 6, 4, 30], skew: 66 },
    dst_space: Space { branching: [75, 12, 5, 9], skew: 62 },
};

const FW: Shape = Shape {
    classes: [[34, 16, 0, 51, 291], [26, 6, 0, 2, 192], [26, 12, 0, 0, 0], [54, 28, 2, 9, 19], [79, 64, 18, 23, 48]],
    src_lengths: [
        ANY_LENGTH,
        &[(76, 1), (17, 2), (2, 8), (2, 11), (1, 15), (1, 6)],
        &[(50, 21), (19, 22), (16, 20), (12, 23), (3, 16)],
        &[(33, 30), (24, 28), (18, 29), (9, 26), (8, 27), (4, 24)],
        &[(55, 32), (45, 31)],
    ],
    dst_lengths: [
        ANY_LENGTH,
        &[(94, 1), (6, 2)],
        &[(47, 22), (24, 21), (18, 20), (12, 23)],
        &[(72, 30), (9, 29), (9, 28), (8, 27), (1, 26)],
        &[(57, 32), (43, 31)],
    ],
    services: &[
        (38, (TCP, All, One)),
        (12, (UDP, All, One)),
        (12, (UDP, One, All)),
        (10, (TCP, All, All)),
        (5, (GRE, All, All)),
        (5, (ICMP, All, All)),
        (4, (TCP, High, High)),
        (3, (UDP, One, One)),
        (3, (UDP, High, One)),
        (3, (UDP, One, High)),
        (3, (UDP, High, High)),
        (1, (None, All, All)),
    ],
    flags: 82,
    src_space: Space { branching: [42, 4, 6, 18], skew: 65 },
    dst_space: Space { branching: [50, 4, 5, 16], skew: 60 },
};

const IPC: Shape = Shape {
    classes: [
        [2, 1, 9, 29, 29],
        [4, 1, 8, 19, 28],
        [24, 25, 57, 128, 47],
        [18, 21, 63, 128, 104],
        [7, 12, 17, 60, 157],
    ],
    src_lengths: [
        ANY_LENGTH,
        &[(69, 1), (19, 15), (7, 2), (5, 14)],
        &[(49, 23), (20, 22), (11, 16), (11, 17), (5, 18), (4, 21)],
        &[(45, 24), (22, 25), (12, 26), (7, 27), (6, 28), (5, 30)],
        &[(67, 32), (33, 31)],
    ],
    dst_lengths: [
        ANY_LENGTH,
        &[(56, 1), (37, 15), (5, 2), (2, 14)],
        &[(36, 23), (29, 16), (16, 22), (16, 17)],
        &[(37, 24), (30, 25), (11, 26), (7, 27), (5, 28), (5, 29)],
        &[(74, 32), (26, 31)],
    ],
    services: &[
        (33, (None, All, All)),
        (21, (UDP, All, One)),
        (12, (TCP, All, One)),
        (9, (TCP, One, All)),
        (8, (UDP, One, All)),
        (8, (UDP, All, High)),
        (2, (TCP, All, All)),
        (2, (TCP, Few, All)),
        (1, (TCP, All, Few)),
        (2, (ICMP, All, All)),
        (1, (UDP, One, One)),
    ],
    flags: 37,
    src_space: Space { branching: [45, 26, 14, 16], skew: 60 },
    dst_space: Space { branching: [80, 18, 14, 10], skew: 57 },
};

impl Style {
    /// All styles.
    pub const ALL: [Style; 3] = [Style::Acl, Style::Fw, Style::Ipc];

    /// Returns the style's name: `acl`, `fw` or `ipc`.
    pub const fn name(self) -> &'static str {
        match self {
            Style::Acl => "acl",
            Style::Fw => "fw",
            Style::Ipc => "ipc",
        }
    }

    pub(super) const fn shape(self) -> &'static Shape {
        match self {
            Style::Acl => &ACL,
            Style::Fw => &FW,
            Style::Ipc => &IPC,
        }
    }
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Style {
    type Err = String;

    fn from_str(text: &str) -> Result<Style, String> {
        let found = Style::ALL.into_iter().find(|style| style.name() == text);
        found.ok_or_else(|| format!("{text:?} is not a style; there are acl, fw, ipc"))
    }
}
