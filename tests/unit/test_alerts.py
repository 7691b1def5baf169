"""The alerts of `deploy/`: each fires for its cause and for no other, as `promtool` runs them.

`promtool` comes with Prometheus. Where it is missing, these tests are skipped, and say so.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import dpq

HERE = Path(dpq.__file__).parents[1] / "deploy" / "prometheus"
RULES = yaml.safe_load((HERE / "alerts.yml").read_text())["groups"][0]["rules"]
CASES = yaml.safe_load((HERE / "alerts_test.yml").read_text())
CAUSES = ("SettingsLost", "NoWorkers", "AllBusy", "ConcurrencyStuck")
"""The alerts that silence what follows from them."""

pytestmark = pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool here")


def promtool(*words: str, cwd: Path = HERE) -> str:
    """What promtool prints; its status is that of the last of its files."""
    done = subprocess.run(
        ["promtool", *words],  # noqa: S607
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_promtool_is_content() -> None:
    """The rules are rules, and in each case exactly those fire that should."""
    assert "SUCCESS" in promtool("check", "rules", "alerts.yml")
    assert promtool("test", "rules", "alerts_test.yml").split()[-1] == "SUCCESS"


OPERATOR = re.compile(r"\s(?:(?:and|unless) on |or )")


def without_parts(expression: str) -> Iterator[tuple[str, str]]:
    """Each `and on ...`, `unless on ...` or `or ...`, at any depth; and the expression without."""
    for found in OPERATOR.finditer(expression):
        end, depth = found.end(), 0
        while end < len(expression) and depth >= 0:
            depth += (expression[end] == "(") - (expression[end] == ")")
            if depth < 0 or (depth == 0 and OPERATOR.match(expression, end)):
                break
            end += 1
        yield expression[found.start() : end], expression[: found.start()] + expression[end:]


def faults(rule: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rule with one fault each."""
    expression = rule["expr"]
    yield "it never fires", {"expr": f"({expression}) and on () vector(1) > 1"}
    if "for" in rule:
        yield "it does not wait", {"for": "0s"}
        yield "it waits too long", {"for": "1w"}
    if "server" in expression:
        blind = re.sub(r"\bserver(, )?", "", expression)
        yield "servers are one", {"expr": blind}
    for part, rest in without_parts(expression):
        yield f"without {part}", {"expr": rest}
    for found in re.finditer(r"(>|<|==) (\d[\d.]*)(?=\s|\)|$)", expression):
        for wrong in (">= 0", "< 1e9"):
            faulty = expression[: found.start()] + wrong + expression[found.end() :]
            yield f"{wrong} for {found[0]}", {"expr": faulty}
    for found in re.finditer(r"(?<!ALERTS){[^}]*}", expression):
        yield f"without {found[0]}", {"expr": expression.replace(found[0], "")}


def test_each_part_of_each_rule_is_needed(tmp_path: Path) -> None:
    """For each fault in each rule, a case fails: all faults are rules of one run."""
    planted = [(rule, *fault) for rule in RULES for fault in faults(rule)]
    rules = [rule for rule in RULES if rule["alert"] in CAUSES]
    rules += [rule | fault | {"alert": f"F{n}"} for n, (rule, _, fault) in enumerate(planted)]
    cases = CASES | {"rule_files": ["rules.yml"], "evaluation_interval": "5m", "tests": []}
    for case in CASES["tests"]:
        asked = [
            {
                "expr": each["expr"].replace("{", f'{{alertname="F{number}",'),
                "eval_time": each["eval_time"],
                "exp_samples": [
                    sample | {"labels": sample["labels"].replace(rule["alert"], f"F{number}")}
                    for sample in each["exp_samples"]
                    if f'alertname="{rule["alert"]}"' in sample["labels"]
                ],
            }
            for number, (rule, _, _) in enumerate(planted)
            for each in case["promql_expr_test"]
        ]
        cases["tests"].append(case | {"promql_expr_test": asked})
    groups = {"groups": [{"name": "dpq", "rules": rules}]}
    (tmp_path / "rules.yml").write_text(json.dumps(groups))
    (tmp_path / "test.yml").write_text(json.dumps(cases))
    said = promtool("test", "rules", "test.yml", cwd=tmp_path)
    seen = set(re.findall(r'expr: .*alertname=\\?"F(\d+)\\?"', said))
    unseen = [
        f"{rule['alert']}: {text}"
        for number, (rule, text, _) in enumerate(planted)
        if str(number) not in seen
    ]
    assert unseen == [], "\n".join(unseen)
    assert len(planted) > 4 * len(RULES)
