# SPDX-License-Identifier: Apache-2.0
"""scenarios/upstream.yaml, a line for each scenario in which upstream's binaries behave differently, and docs/upstream.md, which is made of it. Read by
ci/verify-upstream and ci/update-upstream."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LIST = ROOT / "scenarios/upstream.yaml"
PAGE = ROOT / "docs/upstream.md"
NAMES = ROOT / "features/names.txt"
DEVIATIONS = ROOT / "docs/deviations.md"

TEXT = r'"(?:[^"\\]|\\.)*"'
LINE = re.compile(rf'^(?P<key>{TEXT}): {{(?P<verdict>[a-z]+): (?P<reason>{TEXT})}}$')
# What may be the reason of a difference: rows of docs/deviations.md, or issues of upstream's, and perhaps a word on what happens.
REASON = re.compile(r"^(?P<source>(?:row \d+|istio/istio#\d+)(?:, (?:row \d+|istio/istio#\d+))*)(?:: (?P<text>.+))?$")


# Verdict of a scenario whose outcome with upstream depends on who comes first.
CHANCE = "chance"


class Difference(NamedTuple):
    verdict: str
    reason: str


def by_id(report):
    return {scenario["id"]: scenario for scenario in report["scenarios"]}


def rows():
    """The numbers of the rows of docs/deviations.md, with what each says."""
    found = re.findall(r"^\| (\d+) \| (.+?) \| ", DEVIATIONS.read_text(), re.MULTILINE)
    return {int(number): what for number, what in found}


def read(text):
    """The differences by scenario, and what is wrong with the file."""
    found, faults, known, ids = {}, [], rows(), set(NAMES.read_text().split())
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.match(line)
        if not match:
            faults.append(f"line {number}: not of the form \"SCENARIO\": {{VERDICT: \"REASON\"}}: {line}")
            continue
        name, reason = json.loads(match["key"]), json.loads(match["reason"])
        source = REASON.match(reason)
        if not source:
            faults.append(f"line {number}: neither a row of docs/deviations.md nor an issue of upstream's: {reason}")
        else:
            faults += [f"line {number}: docs/deviations.md has no row {row}" for row in re.findall(r"row (\d+)", source["source"]) if int(row) not in known]
        if name in found:
            faults.append(f"line {number}: a second line for {name}")
        # Copies for a back end have its name at their ends, and no line of their own there.
        if name.split("+")[0] not in ids:
            faults.append(f"line {number}: features/names.txt has no {name}")
        found[name] = Difference(match["verdict"], reason)
    return found, faults


def line(name, verdict, reason):
    return f"{json.dumps(name, ensure_ascii=False)}: {{{verdict}: {json.dumps(reason, ensure_ascii=False)}}}"


def linked(reason):
    """A reason with links."""
    reason = re.sub(r"istio/istio#(\d+)", r"[istio#\1](https://github.com/istio/istio/issues/\1)", reason)
    return re.sub(r"row (\d+)", r"[row \1](deviations.md)", reason)


def page(differences):
    """docs/upstream.md."""
    def cell(text):
        return text.replace("|", "\\|")
    folders = Counter(name.split("/")[0] for name in differences)
    counts = ", ".join(f"`{folder}` {count}" for folder, count in sorted(folders.items()))
    lines = [
        "# What upstream's binaries do in the lab",
        "",
        "Written by `ci/update-upstream` from `scenarios/upstream.yaml`; `ci/verify-upstream` plays the scenarios and fails on any verdict that this page lacks,",
        "a pass as well as a failure. Under test are `istio-cni`, `istio-iptables` and `install-cni` of the version in `ci/peer/go.mod`, as",
        "`scenarios/products/upstream.yaml` describes them, with every scenario that is not of Millrace alone (`@millrace`). What is not listed passes.",
        "A scenario ends at its first difference; what it would have asked after that is not known. `chance` is one that passes or fails by who comes first.",
        "",
        f"{len(differences)} scenarios differ: {counts}.",
        "",
        "| scenario | verdict | why |",
        "|---|---|---|",
    ]
    lines += [f"| {cell(name)} | {entry.verdict} | {cell(linked(entry.reason))} |" for name, entry in differences.items()]
    return "\n".join(lines) + "\n"
