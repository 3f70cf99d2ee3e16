# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "The compiled code raises when it runs"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The op's lowering makes the plain call to the op, and remembers that it was asked for one.

From then on the op raises. Compilation has ended well by the time that the compiled code calls it:
the stage is runtime. The eager calls came before.
"""

import torch
from torch._inductor.lowering import fallback_handler, register_lowering

lowered = []


@torch.library.custom_op("planted::runtime_raises", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    if lowered:
        raise RuntimeError("planted: the op raises when compiled code calls it")
    return x * 2


@op.register_fake
def fake(x):
    return torch.empty_like(x)


@register_lowering(torch.ops.planted.runtime_raises.default)
def lowering(x):
    lowered.append(x)
    call = fallback_handler(torch.ops.planted.runtime_raises.default, add_to_fallback_set=False)
    return call(x)


def make(device):
    def f(x):
        return torch.ops.planted.runtime_raises(x)

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
