"""A bisection against the loop that one writes in a shell, as pairs in one run.

    python -m benchmarks.bisection [--pairs N] [--jobs N]

Sixteen nightlies of the test index, made of the torch 2.13.0 that is installed here, of which the
later ones have a fix of torch (`tests/nightly_index/before_fix.py`). Both begin with an empty cache
of uv, without environments and outcomes, and look for the fix of `hybridep_dispatch` on another
date in each pair. `plain_bisect.sh` looks at both ends and halves; it runs each build once.
The harness does that too, names the stage of each failure, and runs both sides of the boundary a
second time. The median ratio is to stay below 0.7.

What the loop takes without the look at its ends is printed as well, and how long the same command
takes when everything is known.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path

import uv

from tests.nightly_index.before_fix import FX_UTILS, fx_utils_before_fix
from tests.nightly_index.nightlies import base_of_installed, nightlies
from tests.nightly_index.server import IndexServer
from tests.nightly_index.wheels import days, nightly_version

CASE = Path(__file__).parent.parent / "cases" / "hybridep_dispatch.py"
LOOP = Path(__file__).with_name("plain_bisect.sh")
FIRST = date(2026, 5, 13)
BUILDS = 16
# Positions of the first build with the fix, so that early, late and middle ones have their turn.
FIXES = (7, 12, 3, 14, 1)


def plain(index: str, versions: list[str], folder: Path, environment: dict[str, str]) -> list[str]:
    """What the loop prints: seconds until the ends were known, and the two sides."""
    done = subprocess.run(
        [LOOP, index, CASE, sys.executable, folder],
        input="\n".join(versions),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()[1:]


def harness(ends: tuple[date, date], jobs: int, environment: dict[str, str]) -> list[str]:
    """The two sides that `repro bisect` names."""
    good, bad = (day.isoformat() for day in ends)
    command = ["bisect", "--case", str(CASE), "--good", good, "--bad", bad, "--jobs", str(jobs)]
    done = subprocess.run(
        [sys.executable, "-m", "repro", *command, "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    [boundary] = json.loads(done.stdout)["cases"][0]["boundaries"]
    assert boundary["confirmed"]
    return [boundary["older"]["version"], boundary["newer"]["version"]]


def main() -> None:
    """Run the pairs and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    base = base_of_installed("torch")
    old = {FX_UTILS: fx_utils_before_fix(base.read(FX_UTILS).decode()).encode()}
    dates = days(FIRST, FIRST + timedelta(days=BUILDS - 1))
    ratios = []
    for pair in range(options.pairs):
        fix = FIXES[pair % len(FIXES)]
        with IndexServer() as server, tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            early, late = (
                nightlies(base, dates[:fix], lambda day: old),
                nightlies(base, dates[fix:]),
            )
            server.shelf("nightly/cpu").add(*early, *late)
            shared = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
            shared["PATH"] = f"{Path(uv.find_uv_bin()).parent}:{shared['PATH']}"
            took: dict[str, float] = {}
            for which in ("plain", "harness")[:: 1 if pair % 2 else -1]:
                scratch = folder / which
                scratch.mkdir()
                environment = shared | {
                    "UV_CACHE_DIR": str(scratch / "uv"),
                    "TMPDIR": str(scratch),
                    "REPRO_CACHE_DIR": str(scratch / "cache"),
                    "REPRO_NIGHTLY_INDEX_URL": f"{server.url}/nightly",
                    "REPRO_VARIANT": "cpu",
                }
                began = time.perf_counter()
                if which == "plain":
                    index = f"{server.url}/nightly/cpu"
                    versions = [nightly_version(day) for day in dates]
                    ends, *sides = plain(index, versions, scratch, environment)
                    took["ends"] = float(ends)
                else:
                    reach = dates[0], dates[-1]
                    sides = harness(reach, options.jobs, environment)
                took[which] = time.perf_counter() - began
                assert sides == [nightly_version(day) for day in dates[fix - 1 : fix + 1]], sides
                if which == "harness":
                    began = time.perf_counter()
                    assert harness(reach, options.jobs, environment) == sides
                    took["again"] = time.perf_counter() - began
                shutil.rmtree(scratch)
        ratios.append(took["harness"] / took["plain"])
        print(
            f"fix at {fix:2}  plain {took['plain']:5.0f} s, {took['plain'] - took['ends']:.0f} s "
            f"of them after its ends  harness {took['harness']:5.0f} s  ratio {ratios[-1]:.2f}  "
            f"again {took['again']:.2f} s",
            flush=True,
        )
    print(f"median of harness / plain: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
