"""Writes the campus network, campus.json: 200 switches and 376 hosts.

Two core switches, nine buildings with two distribution switches and nineteen or twenty access switches each, and in
the first building two switches for servers. Each access switch is linked to both distribution switches of its building,
each distribution switch to both cores and to its twin, and the cores to each other: 200 switches, 406 links. An access
switch has two hosts, a server switch ten.

    python3 bench/campus/make.py > bench/campus/campus.json
"""

import json

BUILDINGS, ACCESS, SERVER_SWITCHES = 9, 178, 2
HOSTS, SERVERS = 2, 10

switches, hosts, links = [], [], []


def switch(name: str) -> str:
    switches.append({"name": name})
    return name


def host(name: str, at: str) -> None:
    hosts.append({"name": name, "switch": at})


def link(a: str, b: str) -> None:
    links.append({"a": a, "b": b})


cores = [switch("core1"), switch("core2")]
link(*cores)
distribution = [[switch(f"b{n}d{side}") for side in (1, 2)] for n in range(1, BUILDINGS + 1)]
for pair in distribution:
    link(*pair)
    for side in pair:
        for core in cores:
            link(core, side)
for n in range(SERVER_SWITCHES):
    at = switch(f"servers{n + 1}")
    for side in distribution[0]:
        link(side, at)
    for server in range(SERVERS):
        host(f"server{n * SERVERS + server + 1}", at)
for n in range(ACCESS):
    building = n % BUILDINGS
    at = switch(f"b{building + 1}a{n // BUILDINGS + 1}")
    for side in distribution[building]:
        link(side, at)
    for port in range(HOSTS):
        host(f"h{n * HOSTS + port + 1}", at)


def listed(name: str, entries: list[dict[str, str]]) -> str:
    return f'  "{name}": [\n' + ",\n".join("    " + json.dumps(entry) for entry in entries) + "\n  ]"


print("{\n" + ",\n".join([listed("switches", switches), listed("hosts", hosts), listed("links", links)]) + "\n}")
