"""The files of `deploy/` fit the command line, each other, the exporter and the runbook."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import dpq
from dpq.cli import app
from dpq.explain.verdict import VerdictState
from dpq.metrics import COUNTERS, GAUGES, TIMES, TOTALS

ROOT = Path(dpq.__file__).parents[1]
DEPLOY = ROOT / "deploy"
RUNBOOK = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
RULES = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
BOARD = json.loads((DEPLOY / "grafana" / "dpq.json").read_text())
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "dpq.yaml").read_text()))

LABELS = {name: set(labels) for name, (labels, _) in GAUGES.items()}
LABELS |= {f"{name}_total": {"queue"} for name in TOTALS}
LABELS |= {f"{name}_bucket": {"queue", "le"} for name in TIMES}
LABELS |= {f"{name}_total": set(labels) for name, (labels, _) in COUNTERS.items()}
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
