# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A case that passes"
# devices = ["cpu"]
# timeout = 300
# backward = true
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""An op with a fake implementation and a backward, all of them right: the outcome is pass."""

import torch


@torch.library.custom_op("planted::passes", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@op.register_fake
def fake(x):
    return torch.empty_like(x)


op.register_autograd(lambda ctx, grad: grad * 2)


def make(device):
    def f(x):
        return torch.ops.planted.passes(x).sin()

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device).requires_grad_(),)
