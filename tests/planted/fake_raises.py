# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A fake implementation raises"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The real implementation of the op works, its fake implementation raises.

Dynamo runs the fake implementation when it puts the call into its graph, which is the first time
that anything runs it: the stage is dynamo_fake_tensor.
"""

import torch


@torch.library.custom_op("planted::fake_raises", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@op.register_fake
def fake(x):
    raise ValueError("planted: the fake implementation raises")


def make(device):
    def f(x):
        return torch.ops.planted.fake_raises(x) + 1

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
