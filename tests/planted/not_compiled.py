# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A case of which nothing is compiled"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# ///
"""The function only calls one that the compiler has to leave alone. No full graph is asked for.

Dynamo looks at the function, finds nothing to put into a graph and calls no compiler. The result
is right, but a pass would be about nothing.

The mark is on an inner function since torch.compile ignores it on the one that it is given.
"""

import torch


@torch.compiler.disable
def alone(x):
    return x.sin() + 1


def make(device):
    def f(x):
        return alone(x)

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
