# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A graph break where fullgraph is asked for"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The function asks for a graph break, and the header asks for a full graph.

Dynamo refuses at the instruction that breaks the graph, before any compiler is called: the stage
is dynamo_tracing. Eager runs the same call as a no-op.
"""

import torch


def make(device):
    def f(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
