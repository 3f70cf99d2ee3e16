# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "The compiler crashes"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The op's lowering reads address 0.

The process is ended by SIGSEGV while Inductor lowers the graph: the stage is inductor_lowering, and
how it failed is a signal. Only a record that was written before the crash can tell.
"""

import ctypes

import torch
from torch._inductor.lowering import register_lowering


@torch.library.custom_op("planted::segfault_compile", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@op.register_fake
def fake(x):
    return torch.empty_like(x)


@register_lowering(torch.ops.planted.segfault_compile.default)
def lowering(x):
    ctypes.string_at(0)


def make(device):
    def f(x):
        return torch.ops.planted.segfault_compile(x) + 1

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
