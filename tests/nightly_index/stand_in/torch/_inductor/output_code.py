"""The compiled graph, under the names by which a traceback shows that it was running."""

import builtins

from torch import _behaviour
from torch.utils import _pytree


class CompiledFxGraph:
    """Runs the function, and the scripted end of a run."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        """Call it."""
        if _behaviour.ENDS == "raise when run":
            raise getattr(builtins, _behaviour.EXCEPTION)(_behaviour.MESSAGE)
        result = self.function(*args)
        if _behaviour.ENDS == "wrong result":
            return _pytree.tree_map(lambda leaf: leaf + 1, result)
        return result
