"""Writes a fat tree of two levels with 1,008 hosts: 21 edge switches with 48 hosts each, linked to four core switches.

python3 bench/look_ups/fat_tree.py > /tmp/fat_tree.json
"""

import json

CORES, EDGES, HOSTS = 4, 21, 48

cores = [f"core{n + 1}" for n in range(CORES)]
edges = [f"edge{n + 1}" for n in range(EDGES)]
print(
    json.dumps(
        {
            "switches": [{"name": name} for name in cores + edges],
            "hosts": [{"name": f"h{n + 1}", "switch": edges[n // HOSTS]} for n in range(EDGES * HOSTS)],
            "links": [{"a": core, "b": edge} for edge in edges for core in cores],
        }
    )
)
