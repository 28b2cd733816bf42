"""The keys of faucet.yaml (Faucet 1.10), and what becomes of each: converted here, not needed, or not covered."""

from __future__ import annotations

from typing import Final

from maple.importers._document import LOOSER

SECTIONS: Final = {"acls", "dps", "meters", "routers", "vlans", "include", "include-optional", "version"}

# What Maple does by itself or does otherwise, with the reason that the report gives.
_TUNING = "Maple needs no such setting"
_LEARNING = "see `maple run --host-timeout` and `--max-hosts-per-port`"
_LINKS = "Maple finds links between switches by itself"

CONVERTED: Final = {
    "dp": {"dp_id", "name", "description", "interfaces", "interface_ranges", "dp_acls"},
    "port": {
        *("number", "name", "description", "enabled", "native_vlan", "tagged_vlans", "acl_in", "acls_in"),
        *("output_only", "unicast_flood"),
    },
    "vlan": {
        *("name", "description", "vid", "acl_in", "acls_in", "acl_out", "acls_out", "faucet_vips", "faucet_mac"),
        *("unicast_flood", "routes"),
    },
    "router": {"vlans"},
}

NOT_NEEDED: Final = {
    "dp": {
        "hardware": "Maple asks switches what they can do",
        "timeout": _LEARNING,
        "stack": _LINKS,
        **dict.fromkeys(("drop_broadcast_source_address", "drop_spoofed_faucet_mac"), "the policy drops such packets"),
        **dict.fromkeys(
            (
                *("priority_offset", "lowest_priority", "low_priority", "high_priority", "highest_priority", "cookie"),
                *("arp_neighbor_timeout", "nd_neighbor_timeout", "ofchannel_log", "ignore_learn_ins", "group_table"),
                *(
                    "max_hosts_per_resolve_cycle",
                    "max_host_fib_retry_count",
                    "max_resolve_backoff_time",
                    "packetin_pps",
                ),
                *("slowpath_pps", "learn_jitter", "learn_ban_timeout", "advertise_interval", "fast_advertise_interval"),
                *(
                    "proactive_learn_v4",
                    "proactive_learn_v6",
                    "use_idle_timeout",
                    "lldp_beacon",
                    "metrics_rate_limit_sec",
                ),
                *(
                    "faucet_dp_mac",
                    "combinatorial_port_flood",
                    "lacp_timeout",
                    "table_sizes",
                    "min_wildcard_table_size",
                ),
                *("max_wildcard_table_size", "port_table_scale_factor", "global_vlan", "cache_update_guard_time"),
                *("use_classification", "egress_pipeline", "strict_packet_in_cookie", "multi_out", "idle_dst"),
            ),
            _TUNING,
        ),
    },
    "port": {
        "stack": _LINKS,
        "max_hosts": _LEARNING,
        **dict.fromkeys(("loop_protect", "loop_protect_external"), "Maple's floods have no loops"),
        **dict.fromkeys(("lldp_beacon", "receive_lldp", "lldp_peer_mac", "max_lldp_lost"), _LINKS),
        **dict.fromkeys(("opstatus_reconf", "count_untag_vlan_miss"), _TUNING),
        **dict.fromkeys(
            (
                *("lacp_active", "lacp_collect_and_distribute", "lacp_unselected", "lacp_selected", "lacp_standby"),
                *("lacp_passthrough", "lacp_resp_interval", "lacp_port_priority", "lacp_port_id"),
            ),
            "part of `lacp`",
        ),
    },
    "vlan": {
        "max_hosts": _LEARNING,
        **dict.fromkeys(
            (
                *("proactive_arp_limit", "proactive_nd_limit", "targeted_gw_resolution", "minimum_ip_size_check"),
                *("reserved_internal_vlan", "edge_learn_stack_root"),
            ),
            _TUNING,
        ),
    },
    "router": {},
}

# What is missing in the result, and how the result differs then. Values that turn a feature off are not reported.
NOT_COVERED: Final = {
    "dp": {"dot1x": ("802.1X", "")},
    "port": {
        "mirror": ("copies of a whole port", "no copies"),
        "permanent_learn": ("hosts that may never move", LOOSER),
        "hairpin": ("packets back out of the port where they came in", "not sent: stricter"),
        "hairpin_unicast": ("packets back out of the port where they came in", "not sent: stricter"),
        "lacp": ("link aggregation", "the port is shut: stricter"),
        "restricted_bcast_arpnd": ("broadcasts between such ports", LOOSER),
        "coprocessor": ("packet coprocessors", "the port is shut: stricter"),
        "dot1x": ("802.1X", "the port is shut: stricter"),
        "dot1x_acl": ("802.1X", ""),
        "dot1x_mab": ("802.1X", ""),
        "dot1x_dyn_acl": ("802.1X", ""),
    },
    "vlan": {"dot1x_assigned": ("802.1X", "")},
    "router": {"bgp": ("BGP", "routes that BGP learns are missing: stricter")},
}

ALL: Final = {kind: CONVERTED[kind] | set(NOT_NEEDED[kind]) | set(NOT_COVERED[kind]) for kind in CONVERTED}

# What values Faucet takes. To it `true` is a number, too.
_BOOLS: Final = {
    "dp": {
        *("drop_broadcast_source_address", "drop_spoofed_faucet_mac", "group_table", "proactive_learn_v4", "multi_out"),
        *("proactive_learn_v6", "use_idle_timeout", "combinatorial_port_flood", "use_classification", "idle_dst"),
        *("egress_pipeline", "strict_packet_in_cookie"),
    },
    "port": {
        *("enabled", "permanent_learn", "unicast_flood", "hairpin", "hairpin_unicast", "lacp_active", "lacp_standby"),
        *("lacp_collect_and_distribute", "lacp_unselected", "lacp_selected", "loop_protect", "loop_protect_external"),
        *("output_only", "opstatus_reconf", "receive_lldp", "dot1x", "dot1x_acl", "dot1x_mab", "dot1x_dyn_acl"),
        *("restricted_bcast_arpnd", "count_untag_vlan_miss"),
    },
    "vlan": {
        *("unicast_flood", "targeted_gw_resolution", "minimum_ip_size_check", "reserved_internal_vlan"),
        *("dot1x_assigned", "edge_learn_stack_root"),
    },
    "router": set(),
}
_TEXTS: Final = {"name", "description", "hardware", "ofchannel_log", "faucet_dp_mac", "lldp_peer_mac", "faucet_mac"}
_MAPPINGS: Final = {
    *("interfaces", "interface_ranges", "stack", "lldp_beacon", "dot1x", "table_sizes", "coprocessor", "bgp"),
}
_LISTS: Final = {
    *("dp_acls", "tagged_vlans", "acls_in", "acls_out", "lacp_passthrough", "faucet_vips", "routes", "vlans"),
}
_NAMES: Final = {"native_vlan", "acl_in", "acl_out"}
Kinds = tuple[str, ...]


def kinds(kind: str, key: str) -> Kinds:
    """The types that the value of a key may have; one of these."""
    if key in _BOOLS[kind]:
        return ("true or false",)
    if key == "mirror":
        return ("a list", "a text", "a number")
    if key in _NAMES:
        return ("a text", "a number")
    for names, word in ((_TEXTS, "a text"), (_MAPPINGS, "a mapping"), (_LISTS, "a list")):
        if key in names:
            return (word,)
    return ("a fraction",) if key == "port_table_scale_factor" else ("a number",)
