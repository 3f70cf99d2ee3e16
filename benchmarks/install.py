"""What making an environment costs over bare uv, as pairs in one run, with uv's cache warm.

    python benchmarks/install.py [--build SPEC] [--pairs N]

Bare is `uv venv` and `uv pip install` of the same wheel with the same companions. The harness goes
from the spec to an environment that can be used, as `repro run` does: index, checks, bytecode and
record included. Each pair is run in alternating order. The median ratio is to stay below 1.3.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uv

from repro.builds import Build, Origin, parse_spec
from repro.install import COMPANIONS
from repro.sources import Sources
from repro.supply import Settings, Supply


def bare(build: Build, folder: Path) -> float:
    """Seconds that uv takes for what a person would type."""
    began = time.perf_counter()
    python = folder / "bin" / "python"
    default = build.origin is Origin.DEFAULT
    torch = f"torch=={build.version}" if default else f"torch @ {build.url}"
    for command in (
        ["venv", "--quiet", "--python", sys.executable, folder],
        ["pip", "install", "--quiet", "--python", python, torch, *COMPANIONS],
    ):
        subprocess.run([uv.find_uv_bin(), *command], check=True)
    return time.perf_counter() - began


def harness(supply: Supply, spec: str) -> float:
    """Seconds from a spec to an environment that can be used, as `repro run` goes there."""
    began = time.perf_counter()
    with supply.use(supply.resolve(parse_spec(spec)).build, lambda line: None):
        return time.perf_counter() - began


def main() -> None:
    """Run the pairs and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="2.13.0", metavar="SPEC")
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        supply = Supply(Settings(folder / "cache", Sources()), lambda line: None)
        build = supply.resolve(parse_spec(options.build)).build
        for pair in range(options.pairs + 1):
            took = {}
            for which in ("bare", "harness")[:: 1 if pair % 2 else -1]:
                if which == "bare":
                    took[which] = bare(build, folder / "bare")
                    shutil.rmtree(folder / "bare")
                else:
                    took[which] = harness(supply, options.build)
                    # Its bytecode stays, as it does when an environment had to make room.
                    shutil.rmtree(supply.store.folder(build))
            if pair == 0:
                continue  # the first pair downloads and compiles the bytecode
            ratios.append(took["harness"] / took["bare"])
            print(
                f"bare {took['bare']:5.2f} s  harness {took['harness']:5.2f} s"
                f"  ratio {ratios[-1]:.2f}",
                flush=True,
            )
    print(f"median of harness / bare: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
