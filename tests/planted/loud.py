# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A case that writes 1 GB to stdout"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""Writes 1 GiB to stdout when it is loaded, and passes.

A harness that keeps all of it runs out of memory or disk; one that stops reading blocks the case.
"""

import os

import torch

BLOCK = b"planted noise!!\n" * (1 << 16)  # 1 MiB

for _ in range(1024):
    rest = memoryview(BLOCK)
    while rest:  # a pipe may take a part only
        rest = rest[os.write(1, rest) :]


def make(device):
    def f(x):
        return x.view(2, 4)

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
