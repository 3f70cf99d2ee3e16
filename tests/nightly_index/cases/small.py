# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6.0.dev0"]
#
# [tool.repro]
# title = "A multiplication and an addition"
# devices = ["cpu"]
# timeout = 60
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""Passes in every real torch; in a stand-in it ends as that build is scripted."""

import unittest

import torch

if not hasattr(torch, "tensor"):
    raise unittest.SkipTest("this torch has no torch.tensor")


def make(device):
    return lambda x: x * 2 + 1


def inputs(device, seed):
    return (torch.tensor([1.0, 2.0, float(seed)], device=device),)
