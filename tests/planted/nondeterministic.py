# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "An op that gives another result at each call"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The op adds how often it has been called, so that two eager runs differ from each other.

The compiled result differs too, and that proves nothing: there is no reference to judge it by.
"""

import itertools

import torch

calls = itertools.count()


@torch.library.custom_op("planted::nondeterministic", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x + next(calls)


@op.register_fake
def fake(x):
    return torch.empty_like(x)


def make(device):
    def f(x):
        return torch.ops.planted.nondeterministic(x)

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
