# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A case that turns the compiler off"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The case sets a stance that makes every compiled function run in eager, fullgraph or not.

Dynamo never looks at the function. The result is right, but a pass would be about nothing.
"""

import torch

torch.compiler.set_stance("force_eager")


def make(device):
    def f(x):
        return x.sin() + 1

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
