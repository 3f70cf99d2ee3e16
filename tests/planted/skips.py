# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A case that needs an API that no build has"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""Raises unittest.SkipTest before anything is compiled: the outcome is unsupported."""

import unittest

import torch


def make(device):
    raise unittest.SkipTest("needs an API that no build has")


def inputs(device, seed):
    return (torch.ones(8, device=device),)
