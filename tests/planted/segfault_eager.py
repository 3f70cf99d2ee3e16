# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "The op crashes in eager"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The op's implementation reads address 0.

The process is ended by SIGSEGV in the first eager call, before anything is compiled: the stage is
eager_reference, and how it failed is a signal.
"""

import ctypes

import torch


@torch.library.custom_op("planted::segfault_eager", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    ctypes.string_at(0)
    return x * 2


@op.register_fake
def fake(x):
    return torch.empty_like(x)


def make(device):
    def f(x):
        return torch.ops.planted.segfault_eager(x) + 1

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
