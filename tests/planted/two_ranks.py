# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A lowering raises on one rank of two"
# devices = ["cpu"]
# ranks = 2
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""Both ranks compile the same all-reduce; on rank 1 the op's lowering raises.

The stage is inductor_lowering, and rank 1 tells. Rank 0 is ended by the launcher while it compiles,
or gets as far as the all-reduce and finds its partner gone: either is a consequence.
"""

import datetime
import os

import torch
import torch.distributed as dist
from torch._inductor.lowering import fallback_handler, register_lowering


@torch.library.custom_op("planted::two_ranks", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    total = x.clone()
    dist.all_reduce(total)
    return total


@op.register_fake
def fake(x):
    return torch.empty_like(x)


@register_lowering(torch.ops.planted.two_ranks.default)
def lowering(x):
    if os.environ["RANK"] == "1":
        raise RuntimeError("planted: the lowering raises on rank 1")
    call = fallback_handler(torch.ops.planted.two_ranks.default, add_to_fallback_set=False)
    return call(x)


def make(device):
    if not dist.is_initialized():
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))

    def f(x):
        return torch.ops.planted.two_ranks(x)

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
