//! The names of errors, as Open vSwitch prints them.

use crate::msg::Version;

/// Names by type and code (1.0 §5.4.4).
const OF10: [&[&str]; 6] = [
    &["OFPHFC_INCOMPATIBLE", "OFPHFC_EPERM"],
    &[
        "OFPBRC_BAD_VERSION",
        "OFPBRC_BAD_TYPE",
        "OFPBRC_BAD_STAT",
        "OFPBRC_BAD_VENDOR",
        "OFPBRC_BAD_SUBTYPE",
        "OFPBRC_EPERM",
        "OFPBRC_BAD_LEN",
        "OFPBRC_BUFFER_EMPTY",
        "OFPBRC_BUFFER_UNKNOWN",
    ],
    &[
        "OFPBAC_BAD_TYPE",
        "OFPBAC_BAD_LEN",
        "OFPBAC_BAD_VENDOR",
        "OFPBAC_BAD_VENDOR_TYPE",
        "OFPBAC_BAD_OUT_PORT",
        "OFPBAC_BAD_ARGUMENT",
        "OFPBAC_EPERM",
        "OFPBAC_TOO_MANY",
        "OFPBAC_BAD_QUEUE",
    ],
    &[
        "OFPFMFC_TABLE_FULL",
        "OFPFMFC_OVERLAP",
        "OFPFMFC_EPERM",
        "OFPFMFC_BAD_EMERG_TIMEOUT",
        "OFPFMFC_BAD_COMMAND",
        "OFPFMFC_UNSUPPORTED",
    ],
    &["OFPPMFC_BAD_PORT", "OFPPMFC_BAD_HW_ADDR"],
    &["OFPQOFC_BAD_PORT", "OFPQOFC_BAD_QUEUE", "OFPQOFC_EPERM"],
];

/// Names by type and code (1.3 §7.4.4).
///
/// They are the specification's names, except for some that a later version renamed: `IS_SECONDARY`, and "vendor" and
/// "stat" for 1.3's experimenter and multipart.
const OF13: [&[&str]; 14] = [
    &["OFPHFC_INCOMPATIBLE", "OFPHFC_EPERM"],
    &[
        "OFPBRC_BAD_VERSION",
        "OFPBRC_BAD_TYPE",
        "OFPBRC_BAD_STAT",
        "OFPBRC_BAD_VENDOR",
        "OFPBRC_BAD_SUBTYPE",
        "OFPBRC_EPERM",
        "OFPBRC_BAD_LEN",
        "OFPBRC_BUFFER_EMPTY",
        "OFPBRC_BUFFER_UNKNOWN",
        "OFPBRC_BAD_TABLE_ID",
        "OFPBRC_IS_SECONDARY",
        "OFPBRC_BAD_PORT",
        "OFPBRC_BAD_PACKET",
        "OFPBRC_MULTIPART_BUFFER_OVERFLOW",
    ],
    &[
        "OFPBAC_BAD_TYPE",
        "OFPBAC_BAD_LEN",
        "OFPBAC_BAD_VENDOR",
        "OFPBAC_BAD_VENDOR_TYPE",
        "OFPBAC_BAD_OUT_PORT",
        "OFPBAC_BAD_ARGUMENT",
        "OFPBAC_EPERM",
        "OFPBAC_TOO_MANY",
        "OFPBAC_BAD_QUEUE",
        "OFPBAC_BAD_OUT_GROUP",
        "OFPBAC_MATCH_INCONSISTENT",
        "OFPBAC_UNSUPPORTED_ORDER",
        "OFPBAC_BAD_TAG",
        "OFPBAC_BAD_SET_TYPE",
        "OFPBAC_BAD_SET_LEN",
        "OFPBAC_BAD_SET_ARGUMENT",
    ],
    &[
        "OFPBIC_UNKNOWN_INST",
        "OFPBIC_UNSUP_INST",
        "OFPBIC_BAD_TABLE_ID",
        "OFPBIC_UNSUP_METADATA",
        "OFPBIC_UNSUP_METADATA_MASK",
        "OFPBIC_BAD_EXPERIMENTER",
        "OFPBIC_BAD_EXP_TYPE",
        "OFPBIC_BAD_LEN",
        "OFPBIC_EPERM",
    ],
    &[
        "OFPBMC_BAD_TYPE",
        "OFPBMC_BAD_LEN",
        "OFPBMC_BAD_TAG",
        "OFPBMC_BAD_DL_ADDR_MASK",
        "OFPBMC_BAD_NW_ADDR_MASK",
        "OFPBMC_BAD_WILDCARDS",
        "OFPBMC_BAD_FIELD",
        "OFPBMC_BAD_VALUE",
        "OFPBMC_BAD_MASK",
        "OFPBMC_BAD_PREREQ",
        "OFPBMC_DUP_FIELD",
        "OFPBMC_EPERM",
    ],
    &[
        "OFPFMFC_UNKNOWN",
        "OFPFMFC_TABLE_FULL",
        "OFPFMFC_BAD_TABLE_ID",
        "OFPFMFC_OVERLAP",
        "OFPFMFC_EPERM",
        "OFPFMFC_BAD_TIMEOUT",
        "OFPFMFC_BAD_COMMAND",
        "OFPFMFC_BAD_FLAGS",
    ],
    &[
        "OFPGMFC_GROUP_EXISTS",
        "OFPGMFC_INVALID_GROUP",
        "OFPGMFC_WEIGHT_UNSUPPORTED",
        "OFPGMFC_OUT_OF_GROUPS",
        "OFPGMFC_OUT_OF_BUCKETS",
        "OFPGMFC_CHAINING_UNSUPPORTED",
        "OFPGMFC_WATCH_UNSUPPORTED",
        "OFPGMFC_LOOP",
        "OFPGMFC_UNKNOWN_GROUP",
        "OFPGMFC_CHAINED_GROUP",
        "OFPGMFC_BAD_TYPE",
        "OFPGMFC_BAD_COMMAND",
        "OFPGMFC_BAD_BUCKET",
        "OFPGMFC_BAD_WATCH",
        "OFPGMFC_EPERM",
    ],
    &["OFPPMFC_BAD_PORT", "OFPPMFC_BAD_HW_ADDR", "OFPPMFC_BAD_CONFIG", "OFPPMFC_BAD_ADVERTISE", "OFPPMFC_EPERM"],
    &["OFPTMFC_BAD_TABLE", "OFPTMFC_BAD_CONFIG", "OFPTMFC_EPERM"],
    &["OFPQOFC_BAD_PORT", "OFPQOFC_BAD_QUEUE", "OFPQOFC_EPERM"],
    &["OFPSCFC_BAD_FLAGS", "OFPSCFC_BAD_LEN", "OFPSCFC_EPERM"],
    &["OFPRRFC_STALE", "OFPRRFC_UNSUP", "OFPRRFC_BAD_ROLE"],
    &[
        "OFPMMFC_UNKNOWN",
        "OFPMMFC_METER_EXISTS",
        "OFPMMFC_INVALID_METER",
        "OFPMMFC_UNKNOWN_METER",
        "OFPMMFC_BAD_COMMAND",
        "OFPMMFC_BAD_FLAGS",
        "OFPMMFC_BAD_RATE",
        "OFPMMFC_BAD_BURST",
        "OFPMMFC_BAD_BAND",
        "OFPMMFC_BAD_BAND_VALUE",
        "OFPMMFC_OUT_OF_METERS",
        "OFPMMFC_OUT_OF_BANDS",
    ],
    &[
        "OFPTFFC_BAD_TABLE",
        "OFPTFFC_BAD_METADATA",
        "OFPBPC_BAD_TYPE",
        "OFPBPC_BAD_LEN",
        "OFPBPC_BAD_VALUE",
        "OFPTFFC_EPERM",
    ],
];

/// The name of an error, if it has one in this version.
pub(super) fn name(version: Version, kind: u16, code: u16) -> Option<&'static str> {
    let names: &[&[&str]] = match version {
        Version::Of10 => &OF10,
        Version::Of13 => &OF13,
    };
    names.get(usize::from(kind))?.get(usize::from(code)).copied()
}

/// The type that Open vSwitch uses for errors that OpenFlow 1.0 lacks (`NXET_VENDOR`).
pub(super) const OPEN_VSWITCH_TYPE: u16 = 0xb0c2;

/// The vendor or experimenter id of Open vSwitch (Nicira's).
const OPEN_VSWITCH: u32 = 0x2320;

/// The experimenter id of the Open Networking Foundation.
const ONF: u32 = 0x4f4e_4600;

/// Errors of OpenFlow 1.4 and later to which the ONF gave numbers in 1.3, including those of bundles.
const ONF_OF13: [(u16, &str); 23] = [
    (2300, "OFPBFC_UNKNOWN"),
    (2301, "OFPBFC_EPERM"),
    (2302, "OFPBFC_BAD_ID"),
    (2303, "OFPBFC_BUNDLE_EXIST"),
    (2304, "OFPBFC_BUNDLE_CLOSED"),
    (2305, "OFPBFC_OUT_OF_BUNDLES"),
    (2306, "OFPBFC_BAD_TYPE"),
    (2307, "OFPBFC_BAD_FLAGS"),
    (2308, "OFPBFC_MSG_BAD_LEN"),
    (2309, "OFPBFC_MSG_BAD_XID"),
    (2310, "OFPBFC_MSG_UNSUP"),
    (2311, "OFPBFC_MSG_CONFLICT"),
    (2312, "OFPBFC_MSG_TOO_MANY"),
    (2313, "OFPBFC_MSG_FAILED"),
    (2314, "OFPBFC_TIMEOUT"),
    (2315, "OFPBFC_BUNDLE_IN_PROGRESS"),
    (2360, "OFPFMFC_BAD_PRIORITY"),
    (2370, "OFPACFC_INVALID"),
    (2371, "OFPACFC_UNSUPPORTED"),
    (2372, "OFPACFC_EPERM"),
    (2600, "OFPBIC_DUP_INST"),
    (2640, "OFPBRC_MULTIPART_REQUEST_TIMEOUT"),
    (2641, "OFPBRC_MULTIPART_REPLY_TIMEOUT"),
];

/// Errors of Open vSwitch in OpenFlow 1.3.
const OPEN_VSWITCH_OF13: [(u16, &str); 30] = [
    (2, "NXBRC_NXM_INVALID"),
    (3, "NXBRC_NXM_BAD_TYPE"),
    (4, "NXBRC_MUST_BE_ZERO"),
    (5, "NXBRC_BAD_REASON"),
    (6, "OFPMOFC_MONITOR_EXISTS"),
    (7, "OFPMOFC_BAD_FLAGS"),
    (8, "OFPMOFC_UNKNOWN_MONITOR"),
    (9, "NXBRC_FM_BAD_EVENT"),
    (10, "NXBRC_UNENCODABLE_ERROR"),
    (11, "NXBAC_MUST_BE_ZERO"),
    (12, "NXFMFC_HARDWARE"),
    (13, "NXFMFC_BAD_TABLE_ID"),
    (15, "NXBAC_BAD_CONJUNCTION"),
    (16, "NXTTMFC_BAD_COMMAND"),
    (17, "NXTTMFC_BAD_OPT_LEN"),
    (18, "NXTTMFC_BAD_FIELD_IDX"),
    (19, "NXTTMFC_TABLE_FULL"),
    (20, "NXTTMFC_ALREADY_MAPPED"),
    (21, "NXTTMFC_DUP_ENTRY"),
    (34, "NXR_NOT_SUPPORTED"),
    (35, "NXR_STALE"),
    (36, "NXST_NOT_CONFIGURED"),
    (37, "NXFMFC_INVALID_TLV_FIELD"),
    (38, "NXTTMFC_INVALID_TLV_DEL"),
    (39, "NXBAC_BAD_HEADER_TYPE"),
    (40, "NXBAC_UNKNOWN_ED_PROP"),
    (41, "NXBAC_BAD_ED_PROP"),
    (42, "NXBAC_CT_DATAPATH_SUPPORT"),
    (43, "NXBMC_CT_DATAPATH_SUPPORT"),
    (44, "NXTFFC_DUP_TABLE"),
];

/// Errors of Open vSwitch in OpenFlow 1.0: type, code and name.
const OPEN_VSWITCH_OF10: [(u16, u16, &str); 59] = [
    (0, 263, "OFPBMC_BAD_FIELD"),
    (1, 256, "NXBRC_NXM_INVALID"),
    (1, 257, "NXBRC_NXM_BAD_TYPE"),
    (1, 258, "OFPBMC_BAD_VALUE"),
    (1, 259, "OFPBMC_BAD_MASK"),
    (1, 260, "OFPBMC_BAD_PREREQ"),
    (1, 261, "OFPBMC_DUP_FIELD"),
    (1, 262, "OFPBMC_BAD_WILDCARDS"),
    (1, 264, "NXBMC_CT_DATAPATH_SUPPORT"),
    (1, 265, "NXBAC_CT_DATAPATH_SUPPORT"),
    (1, 512, "OFPBRC_BAD_TABLE_ID"),
    (1, 513, "OFPRRFC_BAD_ROLE"),
    (1, 514, "OFPBRC_BAD_PORT"),
    (1, 515, "NXBRC_MUST_BE_ZERO"),
    (1, 516, "NXBRC_BAD_REASON"),
    (1, 517, "OFPMOFC_MONITOR_EXISTS"),
    (1, 518, "OFPMOFC_BAD_FLAGS"),
    (1, 519, "OFPMOFC_UNKNOWN_MONITOR"),
    (1, 520, "NXBRC_FM_BAD_EVENT"),
    (1, 521, "NXBRC_UNENCODABLE_ERROR"),
    (1, 522, "OFPBAC_MATCH_INCONSISTENT"),
    (1, 523, "OFPBAC_BAD_SET_TYPE"),
    (1, 524, "OFPBAC_BAD_SET_LEN"),
    (1, 525, "OFPBAC_BAD_SET_ARGUMENT"),
    (1, 527, "NXTTMFC_BAD_COMMAND"),
    (1, 528, "NXTTMFC_BAD_OPT_LEN"),
    (1, 529, "NXTTMFC_BAD_FIELD_IDX"),
    (1, 530, "NXTTMFC_TABLE_FULL"),
    (1, 531, "NXTTMFC_ALREADY_MAPPED"),
    (1, 532, "NXTTMFC_DUP_ENTRY"),
    (1, 533, "NXR_NOT_SUPPORTED"),
    (1, 534, "NXR_STALE"),
    (1, 535, "NXST_NOT_CONFIGURED"),
    (1, 536, "NXFMFC_INVALID_TLV_FIELD"),
    (1, 537, "NXTTMFC_INVALID_TLV_DEL"),
    (2, 9, "OFPBAC_BAD_OUT_GROUP"),
    (2, 256, "NXBAC_MUST_BE_ZERO"),
    (2, 257, "OFPBIC_UNSUP_INST"),
    (2, 526, "NXBAC_BAD_CONJUNCTION"),
    (3, 258, "OFPFMFC_BAD_FLAGS"),
    (5, 256, "NXFMFC_HARDWARE"),
    (5, 257, "NXFMFC_BAD_TABLE_ID"),
    (6, 0, "OFPGMFC_GROUP_EXISTS"),
    (6, 1, "OFPGMFC_INVALID_GROUP"),
    (6, 2, "OFPGMFC_WEIGHT_UNSUPPORTED"),
    (6, 3, "OFPGMFC_OUT_OF_GROUPS"),
    (6, 4, "OFPGMFC_OUT_OF_BUCKETS"),
    (6, 5, "OFPGMFC_CHAINING_UNSUPPORTED"),
    (6, 6, "OFPGMFC_WATCH_UNSUPPORTED"),
    (6, 7, "OFPGMFC_LOOP"),
    (6, 8, "OFPGMFC_UNKNOWN_GROUP"),
    (6, 9, "OFPGMFC_CHAINED_GROUP"),
    (6, 10, "OFPGMFC_BAD_TYPE"),
    (6, 11, "OFPGMFC_BAD_COMMAND"),
    (6, 12, "OFPGMFC_BAD_BUCKET"),
    (6, 13, "OFPGMFC_BAD_WATCH"),
    (6, 14, "OFPGMFC_EPERM"),
    (6, 15, "OFPGMFC_UNKNOWN_BUCKET"),
    (6, 16, "OFPGMFC_BUCKET_EXISTS"),
];

/// The name of an experimenter's error in OpenFlow 1.3.
pub(super) fn of_experimenter(id: u32, code: u16) -> Option<&'static str> {
    let names: &[(u16, &str)] = match id {
        ONF => &ONF_OF13,
        OPEN_VSWITCH => &OPEN_VSWITCH_OF13,
        _ => return None,
    };
    names.iter().find(|(number, _)| *number == code).map(|(_, name)| *name)
}

/// The name of a vendor's error in OpenFlow 1.0.
pub(super) fn of_open_vswitch(id: u32, kind: u16, code: u16) -> Option<&'static str> {
    let found = OPEN_VSWITCH_OF10.iter().find(|(k, c, _)| (*k, *c) == (kind, code) && id == OPEN_VSWITCH);
    found.map(|(_, _, name)| *name)
}
