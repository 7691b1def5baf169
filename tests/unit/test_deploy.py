"""The files of `deploy/` fit the command line, each other, the exporter and the runbook."""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import dpq
from dpq.cli import app
from dpq.metrics import COUNTERS, GAUGES, SERVER, TIMES, TOTALS
from dpq.model.verdict import VerdictState

ROOT = Path(dpq.__file__).parents[1]
DEPLOY = ROOT / "deploy"
RUNBOOK = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
RULES = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
BOARD = json.loads((DEPLOY / "grafana" / "dpq.json").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "dpq.yaml").read_text()))

LABELS = {name: set(labels) for name, (labels, _) in GAUGES.items()}
LABELS |= {f"{name}_total": {"queue"} for name in TOTALS}
LABELS |= {f"{name}_bucket": {"queue", "le"} for name in TIMES}
LABELS |= {f"{name}_total": set(labels) for name, (labels, _) in COUNTERS.items()}
LABELS |= {name: set() for name in ("dpq_up", "dpq_queues_left_out", *SERVER)}
LABELS = {name: {"server", *labels} for name, labels in LABELS.items()}
LABELS["up"] = {"job", "instance"}  # Prometheus' own
SERIES = re.compile(r"(dpq_\w+|\bup\b)(?:\{([^}]*)\})?")


def parsed(words: list[str]) -> tuple[str, dict[str, Any]]:
    """The command of some words and its parameters, as click reads them; nothing is run."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    return name, command.make_context(name, words).params


def units() -> Iterator[tuple[str, list[str]]]:
    """Each unit's text, and the words that it starts."""
    for path in sorted((DEPLOY / "systemd").glob("*.service")):
        text = path.read_text()
        (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
        program, *words = shlex.split(line)
        assert program.endswith("/bin/dpq")
        yield text, words


def containers() -> Iterator[tuple[Any, Any]]:
    """Each pod, and its container."""
    for each in KUBERNETES:
        pod = each["spec"]["template"]["spec"]
        yield pod, pod["containers"][0]


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def test_units_start_what_the_command_line_takes() -> None:
    """Their commands parse; what stops a worker waits longer than its grace; systemd is content."""
    found = dict.fromkeys(["scheduler", "worker", "web"])
    for text, words in units():
        name, params = parsed(words)
        found[name] = params
        if name == "worker":
            (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
            assert params["grace"] + 5 <= int(stop)
    assert all(found.values())
    with pytest.raises(Exception, match="such option"):
        parsed(["worker", "shop:tasks", "--no-such"])


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    """`systemd-analyze verify` says nothing of the units, once their program is there."""
    for path in (DEPLOY / "systemd").glob("*.service"):
        text = path.read_text().replace("/opt/dpq/.venv/bin/dpq", "/bin/true")
        (tmp_path / path.name).write_text(text.replace("file:///opt/dpq", "file:///"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, tmp_path.iterdir())],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "dpq" in line]
    assert not ours


def test_containers_start_what_the_command_line_takes() -> None:
    """Commands and health checks parse; probes ask the port that listens; the grace fits."""
    for name, service in COMPOSE["services"].items():
        if name == "redis":
            continue
        command, params = parsed(service["command"])
        assert command == name
        if check := service.get("healthcheck"):
            assert check["test"][:2] == ["CMD", "dpq"]
            assert parsed(check["test"][2:])[0] == "doctor"
        if command == "worker":
            assert params["grace"] + 5 <= seconds(service["stop_grace_period"])
            module = params["target"].partition(":")[0]
            assert (DEPLOY / "handlers" / f"{module}.py").exists()
    kinds = set()
    for pod, container in containers():
        command, params = parsed(container["args"])
        kinds.add(command)
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        assert ports["health"] == params["health_port"]
        assert params["health_host"] == "0.0.0.0"  # noqa: S104 - or no probe reaches it
        if command == "scheduler":
            assert ports["metrics"] == params["metrics_port"]
        else:
            assert params["grace"] + 5 <= pod["terminationGracePeriodSeconds"]
        for probe, path in (("livenessProbe", "/live"), ("readinessProbe", "/ready")):
            assert container[probe]["httpGet"] == {"path": path, "port": ports["health"]}
    assert kinds == {"scheduler", "worker"}


def image_faults(text: str) -> set[str]:
    """What of the container file does not fit the repository or the command line."""
    lines = re.sub(r"\\\n", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    words = [line.split(maxsplit=1) for line in lines if line.strip()]
    of = {name: [rest for each, rest in words if each == name] for name, _ in words}
    faults = {f"FROM {each}" for each in of["FROM"] if "python:3.12-slim" not in each}
    copied = [path for each in of["COPY"] if each[0] != "-" for path in each.split()[:-1]]
    kept = re.findall(r"^!(.*)$", (DEPLOY / "Containerfile.dockerignore").read_text(), re.MULTILINE)
    faults |= {path for path in copied if not (ROOT / path).exists() or path not in kept}
    needed = {*PROJECT["license-files"], PROJECT["readme"], "pyproject.toml", "dpq", "examples"}
    faults |= needed - set(copied)
    (extras,) = re.findall(r"'\.\[(.*)\]'", " ".join(of["RUN"]))
    faults |= set(extras.split(",")) - PROJECT["optional-dependencies"].keys()
    faults |= {f"USER {each}" for each in of["USER"] if not each.isdecimal() or int(each) == 0}
    (check,) = re.findall(r"CMD (\[.*\])$", of["HEALTHCHECK"][0])
    program, *asked = json.loads(check)
    faults |= {program} - {"dpq"} | {parsed(asked)[0]} - {"doctor"}
    faults |= {each for each in of["ENTRYPOINT"] if json.loads(each) != ["dpq"]}
    known = {"PATH", "PYTHONUNBUFFERED", "DPQ_LOG"}  # a test of the worker reads the last one
    return faults | set(re.findall(r"(\w+)=", of["ENV"][0])) - known


def test_the_image() -> None:
    """It copies what there is, and what the wheel needs; installs extras that there are; its user
    is not root; it asks `dpq doctor --quick`. No image is built here: compose.yaml names the file.
    """
    text = (DEPLOY / "Containerfile").read_text()
    assert image_faults(text) == set()
    assert (DEPLOY.parent / COMPOSE["x-dpq"]["build"]["dockerfile"]).samefile(
        DEPLOY / "Containerfile"
    )
    for right, wrong in [
        ("COPY dpq dpq", "COPY dqp dqp"),
        ("fast,metrics", "fats,metrics"),
        ("USER 10001", "USER root"),
        ('"doctor", "--quick"', '"stats"'),
        ("DPQ_LOG", "DPQ_LOGS"),
        ("3.12-slim AS", "2.7 AS"),
    ]:
        assert text.count(right) == 1
        assert image_faults(text.replace(right, wrong)), wrong


def expressions() -> list[str]:
    """Every query of the rules and of the dashboard."""
    found = [rule["expr"] for rule in RULES]
    return found + [each["expr"] for panel in BOARD["panels"] for each in panel["targets"]]


def unknown(expression: str) -> set[str]:
    """The metrics and labels of a query that no exporter tells."""
    series = SERIES.findall(expression)
    names = {name for name, _ in series}
    labels = {part for name, _ in series for part in LABELS.get(name, ())}
    wrong = names - LABELS.keys()
    for name, chosen in series:
        asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", chosen))
        wrong |= asked - LABELS.get(name, set())
    for words in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
        wrong |= {word.strip() for word in words.split(",")} - labels
    return wrong


def test_rules_and_dashboard_ask_for_what_is_told() -> None:
    """Each metric and label in them is one of the exporter's."""
    assert len(expressions()) > 20
    assert not set().union(*map(unknown, expressions()))
    states = re.findall(r'dpq_verdict{state=~?"([^"]*)"', " ".join(expressions()))
    assert {state for each in states for state in each.split("|")} <= set(VerdictState)
    assert unknown('max by (no) (dpq_taskz{x="1"})') == {"no", "dpq_taskz", "x"}
    for each in BOARD["templating"]["list"][1:]:
        series, label = re.findall(r"label_values\((.*), (\w+)\)", each["query"])[0]
        assert not unknown(series)
        assert label in LABELS[series.partition("{")[0]]


def test_each_alert_is_in_the_runbook() -> None:
    """Each has its row below "Alerts", in the order of the rules, and no row is of none."""
    section = RUNBOOK.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \|", section, re.MULTILINE)
    assert rows == ["alert", *(rule["alert"] for rule in RULES)]


@pytest.mark.parametrize("name", [*TOTALS, *COUNTERS, *GAUGES])
def test_the_runbook_explains_each_metric(name):
    """`docs/operations.md` has a row for every metric of a queue."""
    assert f"`{name}{'' if name in GAUGES else '_total'}`" in RUNBOOK
