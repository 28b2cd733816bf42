"""The HTTP API against its own description, with requests that schemathesis makes up, and a client in Python."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_command import TOKEN, Running, wait_for


def address(served: Running) -> str:
    """The URL that the controller prints."""
    wait_for("the address", lambda: "HTTP API at" in served.log.read_text())
    found = re.search(r"HTTP API at (http://\S+)/v1$", served.log.read_text(), re.M)
    assert found is not None
    return found[1]


def ask(url: str, method: str = "GET", body: object = None) -> Any:
    """The JSON that a request is answered with."""
    request = urllib.request.Request(url, method=method)
    request.add_header("Authorization", f"Bearer {TOKEN}")
    if body is not None:
        request.add_header("Content-Type", "application/json")
        request.data = json.dumps(body).encode()
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def test_no_request_finds_a_fault_or_an_answer_that_is_not_described(
    served: Running, emulate: Callable[[Running], None]
) -> None:
    url = address(served)
    emulate(served)
    checks = [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    ]
    checks += ["unsupported_method", "allow_header_conformance"]
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{url}/v1/openapi.json", "--no-color"]
    command += ["-H", f"Authorization: Bearer {TOKEN}", "--checks", ",".join(checks), "--warnings", "off"]
    command += ["--phases", "coverage,fuzzing", "--max-time", "20", "--generation-database", "none"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(served.control).parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert served.process.poll() is None
    assert len(ask(f"{url}/v1/hosts")["rows"]) == 2


def test_a_plan_of_the_running_policy_changes_nothing_and_a_policy_that_is_wrong_is_refused(
    served: Running, emulate: Callable[[Running], None]
) -> None:
    url = address(served)
    emulate(served)
    plan = ask(f"{url}/v1/plan", "POST", {"name": None})
    assert plan["policy"].endswith("shortest_path.py")
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(f"{url}/v1/reload", "POST", {"name": "/no/such/policy.py", "tolerate": {"count": 0}})
    problem = json.load(refused.value)
    assert (refused.value.code, problem["status"]) == (409, 409)
    assert "/no/such/policy.py" in problem["detail"]
    line = "ann at 127.0.0.1: POST /v1/reload of /no/such/policy.py, refused:"
    wait_for("the line in the log", lambda: line in served.log.read_text())
