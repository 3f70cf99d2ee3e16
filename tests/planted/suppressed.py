# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A lowering raises and the case suppresses the error"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = false
# ///
"""The op has a lowering that raises, and the case tells Dynamo to suppress errors.

Dynamo would log the error and run eager instead, with the right result. The stage is that of the
error: inductor_lowering.
"""

import torch
import torch._dynamo.config
from torch._inductor.lowering import register_lowering

torch._dynamo.config.suppress_errors = True


@torch.library.custom_op("planted::suppressed", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@op.register_fake
def fake(x):
    return torch.empty_like(x)


@register_lowering(torch.ops.planted.suppressed.default)
def lowering(x):
    raise RuntimeError("planted: the lowering raises")


def make(device):
    def f(x):
        return torch.ops.planted.suppressed(x) + 1

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
