"""Debian's Prometheus scrapes a controller of Open vSwitch bridges, and understands dashboards and alerts."""

import json
import re
import subprocess
import urllib.parse
import urllib.request

import pytest
from harness import ROOT, free_port, sh, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from topologies import Ring

POLICY = ROOT / "examples" / "secure_routing.py"
ALERTS = ROOT / "contrib" / "prometheus" / "alerts.yml"
DASHBOARDS = sorted((ROOT / "contrib" / "grafana").glob("*.json"))


class Prometheus:
    """A Prometheus that scrapes one controller every second, and has the alert rules."""

    def __init__(self, folder, target):
        self.url = f"http://127.0.0.1:{free_port()}"
        settings = folder / "prometheus.yml"
        settings.write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            f"rule_files: [{json.dumps(str(ALERTS))}]\n"
            f"scrape_configs: [{{job_name: maple, static_configs: [{{targets: [{json.dumps(target)}]}}]}}]\n"
        )
        sh("promtool", "check", "config", str(settings))
        self.log = folder / "prometheus.log"
        command = ["prometheus", f"--config.file={settings}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, f"--web.listen-address={self.url.removeprefix('http://')}"], stdout=log, stderr=log
            )

    def get(self, path, **parameters):
        """The data of an answer of its interface."""
        with urllib.request.urlopen(
            f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10
        ) as body:
            answer = json.load(body)
        assert answer["status"] == "success", answer
        return answer["data"]

    def is_up(self):
        """Whether it has scraped the controller."""
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.values('up{job="maple"} == 1') != {}
        except OSError:
            return False

    def values(self, query):
        """The values of a query now, by their labels."""
        result = self.get("query", query=query)["result"]
        return {tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in result}

    def value(self, query):
        """The one value of a query now, or None."""
        values = list(self.values(query).values())
        assert len(values) <= 1, (query, values)
        return values[0] if values else None

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture
def prometheus(tmp_path):
    """A function that starts a Prometheus; what it started ends with the test."""
    started = []

    def start(target):
        folder = tmp_path / f"prometheus-{len(started)}"
        folder.mkdir()
        started.append(Prometheus(folder, target))
        wait_for("the first scrape", started[-1].is_up, timeout=60, every=0.5)
        return started[-1]

    yield start
    for one in started:
        one.stop()


def queries(path):
    """The queries of a dashboard, with all controllers and one switch chosen."""
    expressions = re.findall(r'"expr": ("(?:[^"\\]|\\.)*")', path.read_text())
    chosen = {"$instance": ".*", "$dp_id": "0x1", "$__rate_interval": "1m"}
    for expression in map(json.loads, expressions):
        for name, value in chosen.items():
            expression = expression.replace(name, value)
        yield expression


def test_promtool_accepts_the_alerts():
    assert "SUCCESS" in sh("promtool", "check", "rules", str(ALERTS))


def test_prometheus_scrapes_a_controller_of_real_switches(controller, lab, prometheus, figure):
    address = f"127.0.0.1:{free_port()}"
    maple = controller(POLICY, "--metrics", address)
    net = lab(Ring(), maple, "OpenFlow13")
    seen = prometheus(address)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    switches = [f"0x{number}" for number in range(1, 5)]

    def scraped():
        """Whether what Prometheus has is what the controller says."""
        stats = maple.show("stats")
        now = {name: seen.value(f"maple_{name}") for name in ("rules", "leaves", "labels")}
        return now == {name: stats["engine"][name] for name in now} and stats["engine"]["rules"] > 0

    wait_for("the controller's counts", scraped)
    assert {dict(labels)["dp_id"] for labels in seen.values("dp_status == 1")} == set(switches)
    for number, switch in enumerate(switches, 1):
        rules = len(net.dump(f"s{number}"))
        assert seen.value(f'sum(maple_switch_rules{{dp_id="{switch}"}})') == rules, "as many as the bridge has"
        assert seen.value(f'of_packet_ins_total{{dp_id="{switch}"}}') > 0
        assert seen.value(f'of_flowmsgs_sent_total{{dp_id="{switch}"}}') > rules
        ports = sh("ovs-vsctl", "list-ports", f"s{number}").split()
        known = {dict(labels)["port_description"] for labels in seen.values(f'port_status{{dp_id="{switch}"}} == 1')}
        assert set(ports) <= known
    assert seen.value("sum(maple_switches)") == 4
    assert seen.value("maple_links") == 4
    assert seen.value("maple_hosts") == len(net.hosts)
    assert seen.value("maple_misses_total") == maple.count("misses")
    assert seen.value("maple_install_seconds_count") > 0
    # All that the hosts can send is decided, so no rule shields what is open.
    assert all(of["exploration"]["complete"] for of in maple.show({"tree": None}))
    open_ = ("sum(maple_open_questions)", "sum(maple_switch_barrier_rules)")
    wait_for("the end of the exploration", lambda: [seen.value(query) for query in open_] == [0, 0])

    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as body:
        exported = body.read()
    checked = subprocess.run(["promtool", "check", "metrics"], input=exported, capture_output=True, timeout=60)
    assert checked.returncode == 0, checked.stderr.decode() + checked.stdout.decode()

    asked = [query for path in DASHBOARDS for query in queries(path)]
    answered = [query for query in asked if seen.values(query)]
    figure(f"{len(answered)} of {len(asked)} queries of the dashboards have values on a ring of four bridges")
    assert len(answered) > len(asked) / 2
    loaded = [rule for group in seen.get("rules")["groups"] for rule in group["rules"]]
    assert len(loaded) > 20
    wait_for(
        "all rules to be evaluated",
        lambda: all(rule["health"] == "ok" for group in seen.get("rules")["groups"] for rule in group["rules"]),
    )
    # A busy computer may decide slowly, or miss a scrape, for a moment.
    alerts = {alert["labels"]["alertname"] for alert in seen.get("alerts")["alerts"]}
    assert alerts <= {"MapleDecidesSlowly", "MapleDown"}, "a network that is well causes no alert"

    # One switch is gone.
    sh("ovs-vsctl", "del-controller", "s3")
    wait_for(
        "the alert",
        lambda: (
            [
                alert["labels"]["dp_id"]
                for alert in seen.get("alerts")["alerts"]
                if alert["labels"]["alertname"] == "MapleSwitchGone"
            ]
            == ["0x3"]
        ),
    )
    assert seen.value('dp_status{dp_id="0x3"}') == 0
    assert seen.value('of_dp_disconnections_total{dp_id="0x3"}') == 1
    sh("ovs-vsctl", "set-controller", "s3", f"tcp:127.0.0.1:{maple.port}")
    wait_for("the switch", lambda: seen.value('dp_status{dp_id="0x3"}') == 1)
    assert seen.value('of_dp_connections_total{dp_id="0x3"}') == 2
    # The controller is gone.
    maple.stop()
    wait_for("its end", lambda: seen.value('up{job="maple"}') == 0)
