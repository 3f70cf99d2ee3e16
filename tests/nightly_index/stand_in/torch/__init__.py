"""A stand-in for torch: enough of it to compile a small case to a scripted end.

Values are computed with plain Python numbers. `_behaviour.py` is written when the wheel is made.
"""

from torch import _behaviour

if _behaviour.ENDS == "no import":
    raise ImportError(_behaviour.MESSAGE)

from torch import _dynamo, backends, cuda, nn, testing, utils, version
from torch._compile import compile
from torch._tensor import Tensor, tensor

__version__ = version.__version__
__all__ = [
    "Tensor",
    "_dynamo",
    "backends",
    "compile",
    "cuda",
    "device",
    "manual_seed",
    "nn",
    "tensor",
    "testing",
    "utils",
    "version",
]


class device:
    """A device kind and, for a GPU, which one."""

    def __init__(self, type, index=None):
        self.type = type
        self.index = index


def manual_seed(seed):
    """Nothing here is random."""


for _name in _behaviour.LACKS:
    del globals()[_name]
