# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A case that imports a module that is not there"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""Imports a module that no environment has.

That says something about the environment and nothing about torch: the outcome is untestable.
"""

import module_that_is_not_there
import torch


def make(device):
    return module_that_is_not_there.f


def inputs(device, seed):
    return (torch.ones(8, device=device),)
