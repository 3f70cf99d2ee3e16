# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A lowering raises"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The op has a lowering of its own, which raises.

Inductor calls it when it turns the node of the finished graph into its own representation: the
stage is inductor_lowering.
"""

import torch
from torch._inductor.lowering import register_lowering


@torch.library.custom_op("planted::lowering_raises", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@op.register_fake
def fake(x):
    return torch.empty_like(x)


@register_lowering(torch.ops.planted.lowering_raises.default)
def lowering(x):
    raise RuntimeError("planted: the lowering raises")


def make(device):
    def f(x):
        return torch.ops.planted.lowering_raises(x) + 1

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
