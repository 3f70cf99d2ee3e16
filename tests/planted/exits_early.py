# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "The process exits half way through compilation"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The op's lowering ends the process with exit code 0.

There is no exception and no signal, and the exit code says that all is well. The run never got to
its end, so it must not count as a pass; the last phase that was open is inductor_lowering.
"""

import os

import torch
from torch._inductor.lowering import register_lowering


@torch.library.custom_op("planted::exits_early", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@op.register_fake
def fake(x):
    return torch.empty_like(x)


@register_lowering(torch.ops.planted.exits_early.default)
def lowering(x):
    os._exit(0)


def make(device):
    def f(x):
        return torch.ops.planted.exits_early(x) + 1

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
