# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A lowering raises on the rank that compiles last"
# devices = ["cpu"]
# ranks = 2
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""Both ranks have one op; on rank 1, which compiles once rank 0 has, its lowering raises.

The stage is inductor_lowering, and rank 1 tells. Rank 0 runs what it compiled and is ended by the
launcher, or finds its partner gone: either is a consequence. A rank 1 that took from a cache what
rank 0 has just put there would pass.
"""

import datetime
import os

import torch
import torch.distributed as dist
from torch._inductor.lowering import fallback_handler, register_lowering
from torch.distributed.distributed_c10d import _get_default_store

# Eager runs the op for two seeds, twice.
IN_EAGER = 4
calls = {"op": 0, "inputs": 0}


@torch.library.custom_op("planted::two_ranks", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    calls["op"] += 1
    if calls["op"] > IN_EAGER:
        _get_default_store().set("compiled", "yes")
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
    calls["inputs"] += 1
    if calls["inputs"] > IN_EAGER and os.environ["RANK"] == "1":
        _get_default_store().wait(["compiled"])
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
