# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "The compiled result is wrong"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The op doubles, its lowering makes a call to sin.

Nothing raises, and only Inductor uses the lowering: the backends eager and aot_eager are right,
inductor is wrong. The stage is accuracy.
"""

import torch
from torch._inductor.lowering import fallback_handler, register_lowering


@torch.library.custom_op("planted::wrong_result", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@op.register_fake
def fake(x):
    return torch.empty_like(x)


@register_lowering(torch.ops.planted.wrong_result.default)
def lowering(x):
    return fallback_handler(torch.ops.aten.sin.default, add_to_fallback_set=False)(x)


def make(device):
    def f(x):
        return torch.ops.planted.wrong_result(x)

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
