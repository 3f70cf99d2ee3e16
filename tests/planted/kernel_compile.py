# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "The generated C++ does not compile"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""Inductor is told to write "compile error!" into the C++ in place of relu.

It has a setting for just this, which its own minifier tests use. Everything up to the generated
source succeeds and the C++ compiler refuses it: the stage is kernel_compile.
"""

import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


def make(device):
    def f(x):
        return torch.relu(x) + 1

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(64, generator=generator).to(device),)
