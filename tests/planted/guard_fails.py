# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "The recompile limit is hit under fullgraph"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""One compiled version is allowed, and the second seed needs another one.

The string argument is guarded on and differs between the seeds. Under fullgraph Dynamo may not
fall back to eager and raises: the stage is dynamo_guards. The first seed passes.
"""

import torch
import torch._dynamo.config

torch._dynamo.config.cache_size_limit = 1  # recompile_limit, by the name that 2.6 knows too


def make(device):
    def f(x, name):
        return x.view(2, 4) if name == "wide" else x.view(4, 2)

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(8, generator=generator).to(device)
    return (x, "wide" if seed % 2 == 0 else "tall")
