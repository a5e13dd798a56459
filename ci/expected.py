# SPDX-License-Identifier: Apache-2.0
"""ci/expected's lines on scenarios, and what a run's report says of them. Read by ci/verify-expected and ci/update-expected."""

import json
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXPECTED = ROOT / "ci/expected"
REPORT = ROOT / "target/lab/last/report.json"

# The tag of a scenario that needs the iptables tools (lab/runner/src/lacks.rs).
TOOLS = "iptables-tools"
LINE = re.compile(r"^scenarios (?P<folder>\S+) = (?P<all>\d+), without tools (?P<bare>\d+)$", re.MULTILINE)


def read(text):
    """Of each folder: how many pass with the tools, and without."""
    found = {line["folder"]: (int(line["all"]), int(line["bare"])) for line in LINE.finditer(text)}
    if not found:
        sys.exit("ci: ci/expected says nothing of scenarios")
    return found


def replaced(text, counts):
    """The text with these counts; whatever else is in it stays."""
    kept = LINE.sub("", text).rstrip("\n")
    lines = [f"scenarios {folder} = {all}, without tools {bare}" for folder, (all, bare) in sorted(counts.items())]
    return "\n".join([kept, *lines]) + "\n"


class Run:
    def __init__(self, report, only_tools=False):
        self.only_tools = only_tools
        probes = {probe["need"]: probe["met"] for probe in report["header"]["probes"]}
        self.tools = probes[TOOLS]
        self.passed = Counter()
        self.flaky = Counter()
        self.others = defaultdict(list)
        self.all = {}
        self._tagged = set()
        for scenario in report["scenarios"]:
            folder, tagged = scenario["group"], TOOLS in scenario["tags"]
            all, bare = self.all.get(folder, (0, 0))
            self.all[folder] = (all + 1, bare + (not tagged))
            if scenario["verdict"] == "pass":
                self.passed[folder] += 1
            elif scenario["verdict"] == "flaky":
                self.flaky[folder] += 1
            else:
                self.others[folder].append(scenario["id"])
            if tagged and scenario["verdict"] == "inapplicable":
                self._tagged.add(scenario["id"])

    def wanted(self, all, bare):
        """How many must have passed of a folder that has so many with the tools, and so many without."""
        if self.only_tools:
            return all - bare
        return all if self.tools else bare

    def excused(self, scenario):
        """Whether it did not run because it needs the tools and the machine has none."""
        return not self.tools and scenario in self._tagged


def run(arguments):
    """The run that the command line names, or the last one."""
    if len(arguments) > 1:
        sys.exit("ci: one report at a time")
    path = Path(arguments[0]) if arguments else REPORT
    if not path.is_file():
        sys.exit(f"ci: there is no report at {path}: `cargo lab run` writes one")
    report = json.loads(path.read_text())
    selection = {key: value for key, value in report["header"]["selection"].items() if value}
    if selection not in ({}, {"tags": f"@{TOOLS}"}):
        sys.exit(f"ci: {path} is of a run with a selection: {selection}")
    return Run(report, only_tools=bool(selection))
