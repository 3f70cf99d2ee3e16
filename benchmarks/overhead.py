"""What `repro run --build current` costs over `python cases/CASE.py`, as pairs in one run.

    python benchmarks/overhead.py [--case NAME] [--pairs N] [--python EXECUTABLE]

Both start with empty compiler caches, as they would for somebody who has just changed the case:
plain Python gets an empty TMPDIR and TORCHINDUCTOR_CACHE_DIR, the harness makes its own. Each pair
is run in alternating order; printed are seconds, the ratio of each pair, and the median of
(harness - 0.5 s) / plain, which is to stay below 1.15. With --warm plain Python keeps its caches
from run to run, which lets it skip most of the compile; that ratio is no goal, it shows the price
of a compile that really happens.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWANCE = 0.5
# The harness drops Python's own settings from the shell; plain Python is not to be slowed by one.
SHELL = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def seconds(command: list[str], folder: str, variables: dict[str, str]) -> float:
    """Wall-clock seconds of a command, whatever its exit status."""
    began = time.perf_counter()
    subprocess.run(
        command,
        cwd=folder,
        env=SHELL | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return time.perf_counter() - began


def main() -> None:
    """Run the pairs and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", default="hybridep_dispatch")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--python", default=sys.executable, help="interpreter that has torch")
    parser.add_argument("--warm", action="store_true", help="plain Python keeps its caches")
    options = parser.parse_args()
    case = ROOT / "cases" / f"{options.case}.py"
    build = "current" if options.python == sys.executable else options.python
    harness = [sys.executable, "-m", "repro", "run", "--case", str(case), "--build", build]
    rows: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as kept:
        for pair in range(options.pairs + 1):
            with tempfile.TemporaryDirectory() as fresh:
                cache = kept if options.warm else fresh
                caches = {"TMPDIR": cache, "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor"}
                both = [
                    lambda folder=fresh, caches=caches: seconds(
                        [options.python, str(case)], folder, caches
                    ),
                    lambda folder=fresh: seconds(harness, folder, {}),
                ]
                order = (0, 1) if pair % 2 else (1, 0)
                took = {which: both[which]() for which in order}
            if pair == 0:
                continue  # the first pair reads torch from disk and fills the harness's toolchain
            rows.append((took[0], took[1]))
            print(
                f"plain {took[0]:6.2f} s  harness {took[1]:6.2f} s  ratio {took[1] / took[0]:.2f}"
                f"  less {ALLOWANCE} s {(took[1] - ALLOWANCE) / took[0]:.2f}",
                flush=True,
            )
    ratios = [(harness_s - ALLOWANCE) / plain for plain, harness_s in rows]
    print(f"median of (harness - {ALLOWANCE} s) / plain: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
