# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "The compiler hangs in C and ignores SIGTERM"
# devices = ["cpu"]
# timeout = 30
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The op's lowering never returns from C and keeps the GIL. The stage is inductor_lowering.

SIGTERM is ignored, here and in a child process that has left the process group and holds stdout
open. The child's pid is printed so that a test can see whether the child is gone.
"""

import ctypes
import signal
import subprocess
import sys

import torch
from torch._inductor.lowering import register_lowering


@torch.library.custom_op("planted::hang", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@op.register_fake
def fake(x):
    return torch.empty_like(x)


@register_lowering(torch.ops.planted.hang.default)
def lowering(x):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # before the child starts, which inherits it
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = subprocess.Popen(command, start_new_session=True)
    print(f"child pid={child.pid}", flush=True)
    libc = ctypes.PyDLL(None)  # unlike CDLL, PyDLL keeps the GIL during the call
    while True:
        libc.pause()


def make(device):
    def f(x):
        return torch.ops.planted.hang(x) + 1

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
