# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "new_case: say in a few words what breaks"
# devices = ["cuda", "cpu"]
# timeout = 300
# backward = false
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""Say what breaks, in which stage, and why. Two or three sentences.

As it stands: a custom op whose output is an opaque handle, taken by a second op. It passes where
torch has opaque types (2.12 and newer); put your own op in its place.
"""

import sys
import unittest

import torch


def unsupported(reason):
    """This torch lacks something that the case needs, so there is nothing to test."""
    if __name__ == "__main__":
        print(f"unsupported: {reason}")
        sys.exit(125)
    raise unittest.SkipTest(reason)


try:
    from torch._library.opaque_object import register_opaque_type

    try:  # 2.14 renamed the base class
        from torch._custom_class_base import CustomClassBase as Base
    except ImportError:
        from torch._opaque_base import OpaqueBase as Base
except ImportError as error:
    unsupported(f"no opaque types in this torch: {error}")


class Handle(Base):
    """What the first op knows and the second needs."""

    def __init__(self, scale=1.0):
        self.scale = scale


register_opaque_type(Handle, typ="reference")
HANDLE = f"{Handle.__module__}.{Handle.__qualname__}"

lib = torch.library.Library("new_case", "FRAGMENT")
lib.define(f"pack(Tensor x) -> (Tensor, {HANDLE})")
lib.define(f"unpack(Tensor x, {HANDLE} handle) -> Tensor")


@torch.library.impl(lib, "pack", "CompositeExplicitAutograd")
def pack(x):
    """Double x; the handle knows how to undo it."""
    return x * 2, Handle(0.5)


@torch.library.register_fake("new_case::pack", lib=lib)
def _(x):
    return torch.empty_like(x), Handle()


@torch.library.impl(lib, "unpack", "CompositeExplicitAutograd")
def unpack(x, handle):
    """Undo pack."""
    return x * handle.scale


@torch.library.register_fake("new_case::unpack", lib=lib)
def _(x, handle):
    return torch.empty_like(x)


def make(device):
    """The function or nn.Module to compile."""

    def function(x):
        packed, handle = torch.ops.new_case.pack(x.sin())
        return torch.ops.new_case.unpack(packed, handle)

    return function


def inputs(device, seed):
    """A tuple of arguments; two seeds are run."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(8, 8, generator=generator).to(device),)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    function = make(device)
    compiled = torch.compile(function, backend="inductor", fullgraph=True)
    for seed in (0, 1):
        args = inputs(device, seed)
        torch.testing.assert_close(compiled(*args), function(*args))
    print("compiled and eager agree")
