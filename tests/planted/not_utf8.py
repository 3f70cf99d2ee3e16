# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "Output and message that are not UTF-8"
# devices = ["cpu"]
# timeout = 300
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""Writes bytes that are not UTF-8, and raises a message that cannot be encoded as UTF-8.

os.fsdecode makes lone surrogates of such bytes, as it does for a file name in an OSError. The
fake implementation raises: the stage is dynamo_fake_tensor.
"""

import os

import torch


@torch.library.custom_op("planted::not_utf8", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@op.register_fake
def fake(x):
    os.write(1, b"planted: stdout \xff\xfe\xc3\n")
    os.write(2, b"planted: stderr \xff\xfe\xc3\n")
    raise ValueError("planted: " + os.fsdecode(b"\xff\xfe"))


def make(device):
    def f(x):
        return torch.ops.planted.not_utf8(x) + 1

    return f


def inputs(device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, generator=generator).to(device),)
