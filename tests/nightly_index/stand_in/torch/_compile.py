"""`torch.compile`, with torch's phase events around the scripted end."""

import builtins
import os
import time
from contextlib import ExitStack, contextmanager

from torch import _behaviour
from torch._dynamo.utils import ChromiumEventLogger, counters
from torch._inductor.output_code import CompiledFxGraph


@contextmanager
def phase(name):
    """One phase; like torch's, its end is told in a `finally`."""
    logger = ChromiumEventLogger()
    logger.log_event_start(name, time.time_ns(), {})
    try:
        yield
    finally:
        logger.log_event_end(name, time.time_ns(), {}, 0, True)


def end():
    """Come to the end that is scripted for the compile."""
    if _behaviour.ENDS == "raise":
        raise getattr(builtins, _behaviour.EXCEPTION)(_behaviour.MESSAGE)
    if _behaviour.ENDS == "abort":
        os.abort()
    if _behaviour.ENDS == "leave":
        os._exit(3)
    while _behaviour.ENDS == "hang":
        time.sleep(1)


def compile_graph(function, backend):
    """The compiled function."""
    counters["stats"]["unique_graphs"] += 1
    if backend != "inductor":
        return function
    with ExitStack() as phases:
        for name in _behaviour.PHASES or ("dynamo", "backend_compile"):
            phases.enter_context(phase(name))
        end()
    return CompiledFxGraph(function)


def compile(model, *, backend="inductor", **options):
    """A function that compiles the model when it is first called."""
    made = []

    def compiled(*args):
        if not made:
            made.append(compile_graph(model, backend))
        return made[0](*args)

    return compiled
