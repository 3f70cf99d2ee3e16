# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "The op raises in eager"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The op's implementation raises whenever it runs.

It does so in the first eager call, before anything is compiled: the stage is eager_reference.
"""

import torch


@torch.library.custom_op("planted::eager_raises", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("planted: the op raises in eager")


@op.register_fake
def fake(x):
    return torch.empty_like(x)


def make(device):
    def f(x):
        return torch.ops.planted.eager_raises(x) + 1

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
