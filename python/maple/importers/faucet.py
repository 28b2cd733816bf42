"""faucet.yaml becomes lists in Maple's form, a description of its VLANs and routes, and a policy that has both.

In Faucet a packet passes the list of its port, then that of its VLAN; either may drop it. So there is a document for
each: it denies, or passes the packet on. A list of Faucet ends with an unwritten rule that drops.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from maple.importers import _faucet_acl as acl
from maple.importers import _faucet_config as config
from maple.importers import _faucet_policy
from maple.importers._document import Document, Imported, Names, Report, file_name, one_or_list


@dataclass
class FaucetImport(Imported):
    """The result of :func:`from_faucet`.

    `documents` are lists that a packet passes in this order; there is none for what has no list. `network` can be
    written as JSON: `switches` (ports with their VLANs), `vlans`, `gateways`, `routes`, which VLANs are `routed`
    between, and which nothing is routed into (`unrouted`). `policy` is the text of a Python file for `maple run`,
    beside files named as the documents.
    """

    network: dict[str, Any]
    policy: str
    name: str


def from_faucet(file: str | Path, *, name: str | None = None, lenient: bool = False) -> FaucetImport:
    """Converts a configuration of Faucet.

    :param file: the `faucet.yaml`; files that it includes are read, too.
    :param name: what names of documents begin with; the file's name if left out. What names of files may not have is
        replaced by `_`.
    :param lenient: converts what can be converted. A packet is then denied where a rule's action is not covered.
    :raises InputError: a file is wrong, or has keys that Faucet does not know.
    :raises NotCovered: the file holds what Maple does not do, and `lenient` is not set.

    >>> from maple.importers import from_faucet
    >>> imported = from_faucet("/etc/faucet/faucet.yaml", lenient=True)  # doctest: +SKIP
    """
    report = Report()
    found = config.read(file, report)
    stem = file_name(name or Path(file).stem)
    lists = _Lists(found, report)
    stages = {"ports": lists.ports(), "vlans": lists.vlans("in"), "leaving": lists.vlans("out")}
    documents: list[Document] = [
        # Faucet's rules are those of switches, so they say of fragments what these see.
        {
            "version": 1,
            "name": f"{stem}-{stage}",
            "default": "pass",
            "arp": "pass",
            "fragments": "match",
            "rules": rules,
        }
        for stage, rules in stages.items()
        if rules
    ]
    network = _network(found)
    network["unrouted"] = sorted(lists.unrouted)
    _report_limits(found, report)
    if network["gateways"]:
        report.note(
            next(vlan.place for vlan in found.vlans.values() if vlan.addresses), "routed packets keep their TTL"
        )
    report.refuse_unless(lenient)
    policy = _faucet_policy.text(file_name(Path(file).name), network, [document["name"] for document in documents])
    return FaucetImport(documents, report, network, policy, stem)


class _Lists:
    """The rules of all stages."""

    def __init__(self, found: config.Config, report: Report) -> None:
        self._config, self._report = found, report
        self.unrouted: set[int] = set()
        used = {name for vlan in found.vlans.values() for name in vlan.acls_in + vlan.acls_out}
        used |= {
            name for switch in found.switches for name in [*switch.acls, *(n for p in switch.ports for n in p.acls)]
        }
        self._rules = {}
        for name, value in found.acls.items():
            if name in used:
                self._rules[name] = acl.rules(name, value, found.places[name], report, found.meters)
            else:
                acl.check(value, found.places[name])
                report.note(found.places[name], "no port, VLAN or switch has this list; left out")
        for switch in found.switches:
            self._shut_mirrors(switch)

    def _shut_mirrors(self, switch: config.Switch) -> None:
        """Shuts the ports that get copies: Faucet takes no packets from them."""
        vids = {vid for port in switch.ports for vid in (port.native, *port.tagged)}
        names = {
            name for vid in vids if vid for name in self._config.vlans[vid].acls_in + self._config.vlans[vid].acls_out
        }
        names |= {*switch.acls, *(name for port in switch.ports for name in port.acls)}
        for name in (name for name in self._config.acls if name in names):
            for keys, at in acl.check(self._config.acls[name], self._config.places[name]):
                if (wanted := (keys.get("actions") or {}).get("mirror")) is not None:
                    port = switch.find(wanted, at)
                    if not port.shut:
                        self._report.note(at, f"port {port.name} gets copies, so it takes no packets, as in Faucet")
                    port.shut = True

    def ports(self) -> list[Document]:
        """Lists of ports and of whole switches."""
        names, rules = Names(), []
        shut = [
            f"{switch.dp_id:x}:{port.number}" for switch in self._config.switches for port in switch.ports if port.shut
        ]
        if shut:
            text = "takes no packets: not enabled, for output or copies only, or not covered"
            rules.append({"action": "deny", "name": names.unique("shut"), "at": one_or_list(shut), "comment": text})
        groups: dict[tuple[str | int, ...], list[tuple[config.Switch, str]]] = {}
        for switch in self._config.switches:
            if switch.acls:
                groups.setdefault(tuple(switch.acls), []).append((switch, f"{switch.dp_id:x}"))
            for port in switch.ports:
                if port.acls and not port.shut:
                    groups.setdefault(tuple(port.acls), []).append((switch, f"{switch.dp_id:x}:{port.number}"))
        for acls, found in groups.items():
            for switches in self._apart(acls):
                places = [place for switch, place in found if switch in switches]
                if places:
                    rules += self._list(acls, names, [{"at": one_or_list(places)}], switches[0])
        return rules

    def _apart(self, acls: Iterable[str | int]) -> list[list[config.Switch]]:
        """The switches that share rules. A mirror is a port of the switch itself, so it needs rules of its own."""
        switches = self._config.switches
        return (
            [[switch] for switch in switches]
            if any(r.mirror for name in acls for r in self._rules[name])
            else [switches]
        )

    def vlans(self, direction: str) -> list[Document]:
        """Lists of VLANs: for packets with the VLAN's tag, and for those without one from ports that give it to them.

        What leaves a VLAN that is not routed has entered it as well, so it passes its lists of both directions there.
        """
        names, rules = Names(), []
        for vlan in self._config.vlans.values():
            acls = vlan.acls_in if direction == "in" else vlan.acls_out
            if not acls:
                continue
            if direction == "out" and (vlan.addresses or any(vlan.vid in group for group in self._config.routers)):
                text = "lists for what leaves a VLAN that is routed"
                self._report.not_cover(vlan.place, text, "nothing is routed into it: stricter")
                self.unrouted.add(vlan.vid)
            for switches in self._apart(acls):
                ports = [(f"{switch.dp_id:x}:{port.number}", port) for switch in switches for port in switch.ports]
                tagged = [place for place, port in ports if vlan.vid in port.tagged]
                native = [place for place, port in ports if vlan.vid == port.native]
                where = [{"vlan": vlan.vid, "at": one_or_list(tagged)}] if tagged else []
                where += [{"vlan": "none", "at": one_or_list(native)}] if native else []
                rules += self._list(acls, names, where, switches[0], vlan.vid)
        return rules

    def _list(
        self,
        acls: Iterable[str | int],
        names: Names,
        where: list[dict[str, Any]],
        switch: config.Switch,
        vid: int | None = None,
    ) -> list[Document]:
        """Lists one after another at each place, and the end of Faucet's lists.

        In the list of a VLAN, Faucet replaces the VLAN that a rule asks for by the list's own.
        """
        found: list[Document] = []
        for rule in (rule for name in acls for rule in self._rules[name]):
            if vid is not None and rule.vlan not in (None, vid):
                text = f"its VLAN {rule.vlan} does not count in the list of VLAN {vid}, as in Faucet"
                self._report.note(rule.place, text)
            for place in where:
                at = place if vid is not None or rule.vlan is None else {"vlan": rule.vlan, **place}
                action, copied = "pass" if rule.allow else "deny", self._with_copies(rule, place, switch, vid)
                found.append(acl.written(copied, action, names.unique(rule.name), switch, **at))
        ends = "lists of Faucet drop what no rule matches"
        for place in where:
            found.append({"action": "deny", "name": names.unique(f"{list(acls)[-1]}-end"), **place, "comment": ends})
        return found

    def _with_copies(self, rule: acl.Rule, where: dict[str, Any], switch: config.Switch, vid: int | None) -> acl.Rule:
        """The rule, without copies if Maple can't make them: a switch sends a packet in one form."""
        if rule.mirror is None:
            return rule
        places = where["at"] if isinstance(where["at"], list) else [where["at"]]
        ports = [p for p in switch.ports if {f"{switch.dp_id:x}", f"{switch.dp_id:x}:{p.number}"} & set(places)]
        vids = {vid} if vid is not None else {v for p in ports for v in (p.native, *p.tagged) if v is not None}
        all_ports = [port for other in self._config.switches for port in other.ports if not port.off]
        mixed = [v for v in vids if len({v in p.tagged for p in all_ports if v == p.native or v in p.tagged}) > 1]
        routed = [v for v in vids if self._config.vlans[v].addresses]
        why = (
            (where.get("vlan") == "none" and "copies have the tag of the VLAN, and packets come without it")
            or (mixed and f"copies of packets of VLAN {mixed[0]}, which may leave with a tag or without one")
            or (routed and f"copies of packets of VLAN {routed[0]}, which may leave as routed ones")
        )
        if not why:
            return rule
        self._report.not_cover(rule.mirror[1], why, "no copies")
        return replace(rule, mirror=None)


def _report_limits(found: config.Config, report: Report) -> None:
    """A policy sends at most 64 frames of its own for a packet: it asks for hosts, and copies for ports with tags."""
    ports = [port for switch in found.switches for port in switch.ports if not port.off]
    for vlan in found.vlans.values():
        tagged = sum(vlan.vid in port.tagged for port in ports)
        untagged = sum(vlan.vid == port.native for port in ports)
        if (tagged > 64 and untagged) or (vlan.addresses and tagged + untagged > 64):
            text = "more than 64 ports of a routed VLAN, or with its tag where others have none"
            report.not_cover(vlan.place, text, "packets that go to all of them are dropped: stricter")


def _network(found: config.Config) -> dict[str, Any]:
    """VLANs, ports and routes as plain values. Keys are text, as in JSON."""
    vlans = found.vlans.values()
    return {
        "switches": {
            str(switch.dp_id): {
                "name": switch.name,
                "ports": {
                    str(port.number): {
                        "name": port.name,
                        "untagged": None if port.off else port.native,
                        "tagged": [] if port.off else port.tagged,
                        "input": not port.shut,
                        "flood": port.flood,
                    }
                    for port in switch.ports
                },
            }
            for switch in found.switches
        },
        "vlans": {str(vlan.vid): {"name": vlan.name, "flood": vlan.flood, "mac": vlan.mac} for vlan in vlans},
        "gateways": [
            {"vlan": vlan.vid, "address": str(at.ip), "subnet": str(at.network), "mac": vlan.mac}
            for vlan in vlans
            for at in vlan.addresses
            if at.version == 4
        ],
        "routes": [{"vlan": vlan.vid, "to": to, "via": via} for vlan in vlans for to, via in vlan.routes],
        "routed": found.routers,
    }
