# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A case that leaves a daemon behind"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "eager"
# ///
"""The case starts a process that forks twice, leaves the session and empties its environment.

It passes, and nothing of it may be left: neither parentage nor group nor environment tells whose
the daemon is.
"""

import os
import time

import torch

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(f"daemon pid={os.getpid()}", flush=True)
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
os.wait()
time.sleep(0.5)


def make(device):
    def f(x):
        return x.sin() + 1

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
