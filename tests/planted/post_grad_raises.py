# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A post-grad pass raises"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The last of Inductor's passes over the graph after AOTAutograd is ours, and raises.

The graph has been traced and no node has been lowered yet: the stage is post_grad_passes.
"""

import torch
import torch._inductor.config
from torch._inductor.custom_graph_pass import CustomGraphPass


class RaisingPass(CustomGraphPass):
    def __call__(self, graph):
        raise RuntimeError("planted: the post-grad pass raises")

    def uuid(self):
        return "planted.post_grad_raises"


torch._inductor.config.post_grad_custom_post_pass = RaisingPass()


def make(device):
    def f(x):
        return x.sin() + 1

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
