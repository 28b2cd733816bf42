"""The keywords of Aerleon's terms that have no equal in Maple's form."""

from __future__ import annotations

from typing import Final

# Keywords that say which packets a term is for, and have no equal in Maple's form.
CONDITIONS: Final = [
    "option",
    "source-fqdn",
    "destination-fqdn",
    "source-prefix",
    "destination-prefix",
    "source-prefix-except",
    "destination-prefix-except",
    "source-interface",
    "destination-interface",
    "source-tag",
    "destination-tag",
    "source-zone",
    "destination-zone",
    "ttl",
    "hop-limit",
    "packet-length",
    "fragment-offset",
    "dscp-match",
    "dscp-except",
    "precedence",
    "flexible-match-range",
    "traffic-type",
    "forwarding-class",
    "forwarding-class-except",
    "pan-application",
    "target-resources",
    "target-service-accounts",
]
# Keywords after which an allowed packet fares otherwise than by being allowed.
EFFECTS: Final = [
    "routing-instance",
    "next-ip",
    "encapsulate",
    "port-mirror",
    "policer",
    "dscp-set",
    "filter-term",
    "vpn",
]
# Keywords that leave the verdict as it is.
UNUSED: Final = [
    "counter",
    "traffic-class-count",
    "qos",
    "loss-priority",
    "log-name",
    "log-limit",
    "timeout",
    "priority",
    "profile-settings",
]
