"""Dashboards and alerts ask only for metrics that exist, by labels that these have.

The metrics are those of docs/metrics.md, which a test of `maple-controller` holds against a running controller.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DASHBOARDS = sorted((ROOT / "contrib" / "grafana").glob("*.json"))
ALERTS = ROOT / "contrib" / "prometheus" / "alerts.yml"

# Labels and metrics that Prometheus adds to all that it scrapes.
ADDED_LABELS = {"instance", "job"}
ADDED_METRICS = {"up": set[str]()}

STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
GROUPING = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
SELECTOR = re.compile(r"\b([a-z_][a-z0-9_]*)\s*(?:\{([^}]*)\})?(?!\w|\s*\()", re.I)
KEYWORDS = {"and", "or", "unless", "bool", "offset"}


def metrics() -> dict[str, set[str]]:
    """The labels of each metric of the page, by the name of its values."""
    rows = re.findall(r"^\| (`[^|]*`) \| (\w+) \| ([^|]*) \| [^|]* \|$", (ROOT / "docs/metrics.md").read_text(), re.M)
    found = {}
    for names, kind, labels in rows:
        for name in re.findall(r"`(\w+)`", names):
            own = set(re.findall(r"`(\w+)`", labels))
            if kind == "histogram":
                found |= {f"{name}_bucket": own | {"le"}, f"{name}_sum": own, f"{name}_count": own}
            else:
                found[name] = own
    return found


def asked(query: str) -> Iterator[tuple[str, set[str]]]:
    """The metrics that a query names, each with the labels that it selects or groups by."""
    query = STRING.sub('""', query.replace("$__rate_interval", "5m"))
    grouped = {label.strip() for _, labels in GROUPING.findall(query) for label in labels.split(",") if label.strip()}
    query = re.sub(r"\[[^\]]*\]", "", GROUPING.sub("", query))
    for name, matchers in SELECTOR.findall(query):
        if name not in KEYWORDS and not name.isdigit():
            yield name, grouped | set(re.findall(r"(\w+)\s*[=!]", matchers))


def wrong(query: str) -> list[str]:
    """What a query asks for that does not exist."""
    known = metrics() | ADDED_METRICS
    faults = []
    for name, labels in asked(query):
        if name not in known:
            faults.append(f"no metric {name}")
        else:
            faults += [f"{name} has no label {label}" for label in sorted(labels - known[name] - ADDED_LABELS)]
    return faults


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in dashboard["panels"]:
        yield panel
        yield from panels(panel) if "panels" in panel else ()


def queries(path: Path) -> list[str]:
    """The queries of a dashboard, its variables included."""
    dashboard = json.loads(path.read_text())
    variables = [
        re.fullmatch(r"label_values\((.+), (\w+)\)", v["query"]["query"]) for v in dashboard["templating"]["list"][1:]
    ]
    listed = [f"count by ({found[2]}) ({found[1]})" for found in variables if found]
    assert len(listed) == len(variables)
    return [target["expr"] for panel in panels(dashboard) for target in panel["targets"]] + listed


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def test_queries_are_understood() -> None:
    query = 'topk(3, sum by (le, a) (rate(x_total{b="y{z}", c!~"$d"}[5m] offset 1h))) / on (e) w or vector(0) > 1e6'
    grouped = {"le", "a", "e"}
    assert list(asked(query)) == [("x_total", grouped | {"b", "c"}), ("w", grouped)]
    assert wrong("maple_hits") == ["no metric maple_hits"]
    assert wrong('maple_hits_total{dp_id="1"}') == ["maple_hits_total has no label dp_id"]
    assert wrong("sum by (le, dp_id) (rate(maple_decide_seconds_bucket[5m]))") == [
        "maple_decide_seconds_bucket has no label dp_id"
    ]
    assert wrong('sum by (instance) (maple_hits_total{job="maple"})') == []


def test_there_are_three_dashboards() -> None:
    assert [path.stem for path in DASHBOARDS] == ["fleet", "policy", "switch"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_asks_for_metrics_that_exist(path: Path) -> None:
    asked_for = queries(path)
    assert len(asked_for) > 10
    assert {query: wrong(query) for query in asked_for if wrong(query)} == {}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_can_be_imported(path: Path) -> None:
    dashboard = json.loads(path.read_text())
    known = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", path.read_text())) - {"__rate_interval"}
    assert used <= known
    assert dashboard["uid"] == f"maple-{path.stem}"
    numbers = [panel["id"] for panel in panels(dashboard)]
    assert len(set(numbers)) == len(numbers)
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    cells = [
        (x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells), "no panel covers another one"
    assert max(x for x, _ in cells) < 24


def test_alerts_ask_for_metrics_that_exist() -> None:
    assert {rule["alert"]: wrong(rule["expr"]) for rule in rules() if wrong(rule["expr"])} == {}


def test_alerts_say_what_is_wrong_by_labels_that_they_have() -> None:
    known = metrics() | ADDED_METRICS
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        has = ADDED_LABELS.union(*(known[name] for name, _ in asked(rule["expr"])))
        said = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", said)) <= has, rule["alert"]


def test_the_metrics_of_faucet_that_mean_the_same_are_there() -> None:
    names = metrics()
    for name in ("of_packet_ins_total", "of_ignored_packet_ins_total", "of_flowmsgs_sent_total", "of_errors_total"):
        assert names[name] == {"dp_id", "dp_name"}
    for name in ("of_dp_connections_total", "of_dp_disconnections_total", "dp_status"):
        assert names[name] == {"dp_id", "dp_name"}
    assert names["port_status"] == {"dp_id", "dp_name", "port", "port_description"}
