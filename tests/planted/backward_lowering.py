# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A lowering in the backward graph raises"
# devices = ["cpu"]
# timeout = 300
# backward = true
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The forward op compiles and runs; its backward calls a second op, whose lowering raises.

The backward graph is lowered when .backward() runs for the first time: the stage is
inductor_lowering, the side is backward.
"""

import torch
from torch._inductor.lowering import register_lowering


@torch.library.custom_op("planted::backward_lowering", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("planted::backward_lowering_grad", mutates_args=())
def op_grad(grad: torch.Tensor) -> torch.Tensor:
    return grad * 2


@op.register_fake
@op_grad.register_fake
def fake(x):
    return torch.empty_like(x)


op.register_autograd(lambda ctx, grad: torch.ops.planted.backward_lowering_grad(grad))


@register_lowering(torch.ops.planted.backward_lowering_grad.default)
def lowering(grad):
    raise RuntimeError("planted: the lowering of the backward op raises")


def make(device):
    def f(x):
        return torch.ops.planted.backward_lowering(x)

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device).requires_grad_(),)
