# SPDX-License-Identifier: Apache-2.0
"""A cluster that stays (`cnilab up`) while something is done in it. Used by ci/verify-real and ci/verify-calls."""

import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Seconds of an orderly end.
PATIENCE = 60


class Up:
    """Starts a cluster with these flags; `seconds` is the time until it was there. Its log and its kubeconfig are files beside `base`."""

    def __init__(self, base, flags):
        self.kubeconfig, self.log = base.with_suffix(".kubeconfig"), base.with_suffix(".log")
        # However this process ends, its cluster does, too.
        self.command = ["setpriv", "--pdeathsig", "TERM", "cargo", "lab", "up", "--output", "json", "--kubeconfig", str(self.kubeconfig), *flags]

    def __enter__(self):
        began = time.monotonic()
        with self.log.open("w") as log:
            self.process = subprocess.Popen(self.command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        if not self.process.stdout.readline():
            self.process.wait()
            sys.exit(f"ci: {' '.join(self.command)}: {self.log.read_text()}")
        self.seconds = time.monotonic() - began
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        if code != 0:
            sys.exit(f"ci: cnilab up ended with {self.process.returncode}: {self.log.read_text()}")
