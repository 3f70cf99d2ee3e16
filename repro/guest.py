"""Run one case under the torch of this interpreter and write down what happens.

The only file of the harness that runs inside a build. It needs nothing but the standard library and
torch (2.6 and newer), works on Python 3.10 and newer, and decides nothing: it writes events, one
JSON object a line, flushed one by one, so that a crash or a kill loses only what came after it.
`repro.runner` starts it, `repro.transcript` reads the events, `repro.classify` names the stage.

    python guest.py CONFIG.json

CONFIG holds the keys of `repro.runner.guest_config`. With `ranks` above one and no RANK in the
environment the process starts itself once a rank through `torch.distributed.run`.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import faulthandler
import importlib.util
import json
import os
import platform
import sys
import threading
import time
import traceback
import unittest
from types import ModuleType
from typing import Any

Config = dict[str, Any]
Result = dict[str, Any]
# The exit status that says: the events themselves could not be written (a full disk).
CANNOT_WRITE = 97
MESSAGE_LIMIT = 20_000
FRAMES_LIMIT = 160
CHAIN_LIMIT = 20
SEEDS = (0, 1)
# Phases seen first for an exception are kept on the exception itself: a table of exceptions would
# keep alive what torch has long dropped, tensors and handles included.
PHASES_ATTRIBUTE = "__repro_phases__"


class Events:
    """The event file of this process. A forked child shares the descriptor but writes nothing."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.pid = os.getpid()
        self.step = "start"

    def begin(self, step: str) -> None:
        """Enter a step of the run: import, case, eager, compile, compare, end."""
        self.step = step
        self.put("step", name=step)

    def put(self, event: str, **fields: Any) -> None:
        """Append one event; `at` is Unix time in seconds."""
        if os.getpid() != self.pid:
            return
        line = json.dumps({"event": event, "at": time.time(), **fields}) + "\n"
        try:
            os.write(self.descriptor, line.encode("ascii"))
        except OSError:
            # Raised from here it would look like a failure of the phase that was being noted.
            os._exit(CANNOT_WRITE)


class Phases:
    """torch's own compile phases, watched from outside.

    Every phase passes through `torch._dynamo.utils.ChromiumEventLogger.log_event_start` and
    `log_event_end` (2.5.1 to 2.15.0). The end runs in a `finally`, so an exception that leaves a
    phase can be seen there; tying the phases to the object itself tells the exception that reaches
    the caller from the many that torch raises and swallows on its way.
    """

    def __init__(self, events: Events) -> None:
        self.events = events
        self.local = threading.local()
        self.graphs = 0

    def install(self) -> bool:
        """Wrap the two methods. Returns whether this torch has them."""
        import torch._dynamo.utils as utils

        logger = getattr(utils, "ChromiumEventLogger", None)
        start = getattr(logger, "log_event_start", None)
        end = getattr(logger, "log_event_end", None)
        if logger is None or start is None or end is None:
            return False

        def log_event_start(this: Any, event_name: str, *args: Any, **kwargs: Any) -> Any:
            self.started(event_name)
            return start(this, event_name, *args, **kwargs)

        def log_event_end(this: Any, event_name: str, *args: Any, **kwargs: Any) -> Any:
            self.ended(event_name)
            return end(this, event_name, *args, **kwargs)

        logger.log_event_start = log_event_start
        logger.log_event_end = log_event_end
        return True

    def stack(self) -> list[tuple[str, BaseException | None]]:
        """Open phases of this thread, each with the exception that was being handled then."""
        if not hasattr(self.local, "stack"):
            self.local.stack = []
        stack: list[tuple[str, BaseException | None]] = self.local.stack
        return stack

    def started(self, name: str) -> None:
        """Note that a phase began."""
        if name == "backend_compile":
            self.graphs += 1
        self.stack().append((name, sys.exc_info()[1]))
        self.events.put("phase", name=name, open=True, thread=threading.get_ident())

    def ended(self, name: str) -> None:
        """Note that a phase ended, and for an exception that leaves it, where it came from."""
        stack = self.stack()
        at = next((i for i in reversed(range(len(stack))) if stack[i][0] == name), None)
        if at is not None:
            raised = sys.exc_info()[1]
            if raised is not None and raised is not stack[at][1]:
                remember(raised, [entry[0] for entry in stack[: at + 1]])
            del stack[at:]
        self.events.put("phase", name=name, open=False, thread=threading.get_ident())


def remember(exception: BaseException, phases: list[str]) -> None:
    """Note on the exception the phases in which it was first seen; later calls change nothing."""
    if attribute(exception, PHASES_ATTRIBUTE) is None:
        with contextlib.suppress(Exception):  # a class that refuses attributes, in whatever way
            setattr(exception, PHASES_ATTRIBUTE, phases)


def attribute(exception: BaseException, name: str) -> Any:
    """An attribute, None where there is none or where the class fails to say."""
    try:
        return getattr(exception, name, None)
    except BaseException:  # noqa: BLE001 - foreign code, and this is no place to fail
        return None


def qualified_name(cls: type) -> str:
    """`AssertionError`, `torch._inductor.exc.InductorError`."""
    module = getattr(cls, "__module__", "builtins")
    return cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"


def wraps_its_context(exception: BaseException) -> bool:
    """Whether `__context__` is what this exception stands for, although `from None` hides it.

    So do torch's wrappers (InductorError, LoweringException, TorchRuntimeError,
    InternalTorchDynamoError). An Unsupported is an answer of its own: its context is whatever
    Dynamo happened to be handling.
    """
    cls = type(exception)
    return cls.__module__ in ("torch._dynamo.exc", "torch._inductor.exc") and not any(
        base.__name__ in ("Unsupported", "UserError", "UncapturedHigherOrderOpError")
        for base in cls.__mro__
    )


def chain_of(exception: BaseException | None) -> list[BaseException]:
    """The exceptions that stand for one another, outermost first."""
    chain: list[BaseException] = []
    while (
        exception is not None
        and len(chain) < CHAIN_LIMIT
        and all(exception is not other for other in chain)
    ):
        chain.append(exception)
        inner = attribute(exception, "inner_exception")
        if not isinstance(inner, BaseException):
            inner = attribute(exception, "__cause__")
        if inner is None and wraps_its_context(exception):
            inner = attribute(exception, "__context__")
        exception = inner
        if type(chain[-1]).__name__.endswith("CompileError"):
            break  # its text is the compiler's output; the cause only says that a process failed
    return chain


def text_of(exception: BaseException) -> str:
    """`str(exception)`, bounded; a class whose `__str__` fails gets a sentence instead."""
    try:
        text = str(exception)
    except BaseException as error:  # noqa: BLE001 - foreign code; the failure is what is reported
        text = f"<its __str__ raised {qualified_name(type(error))}>"
    if len(text) > MESSAGE_LIMIT:
        half = MESSAGE_LIMIT // 2
        text = f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"
    return text


def frames_of(exception: BaseException) -> list[list[Any]]:
    """`[file, line, function]` of the exception's own traceback, outermost first, bounded."""
    frames = [
        [frame.f_code.co_filename, line, frame.f_code.co_name]
        for frame, line in traceback.walk_tb(attribute(exception, "__traceback__"))
        if frame.f_code.co_filename != __file__
    ]
    if len(frames) > FRAMES_LIMIT:
        frames = frames[: FRAMES_LIMIT // 4] + frames[-FRAMES_LIMIT * 3 // 4 :]
    return frames


def described(exception: BaseException) -> dict[str, Any]:
    """One exception of the chain, as the host reads it."""
    return {
        "type": qualified_name(type(exception)),
        "bases": [qualified_name(base) for base in type(exception).__mro__[1:]],
        "message": text_of(exception),
        "frames": frames_of(exception),
    }


def report_exception(events: Events, exception: BaseException) -> None:
    """Write the chain and the phases of its deepest exception that has some."""
    chain = chain_of(exception)
    phases = [attribute(link, PHASES_ATTRIBUTE) for link in chain]
    events.put(
        "raised",
        step=events.step,
        chain=[described(link) for link in chain],
        phases=next((found for found in reversed(phases) if found), []),
    )
    with contextlib.suppress(Exception):  # for the log; the event above is what counts
        traceback.print_exception(exception)


def die_with_parent() -> None:
    """Ask Linux to end this process with its parent, so that nothing outlives a kill."""
    if sys.platform == "linux":
        pr_set_pdeathsig, sigkill = 1, 9
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, sigkill)


def import_torch(events: Events) -> None:
    """Import torch and write down what it says of itself."""
    began = time.perf_counter()
    import torch

    version = torch.version
    events.put(
        "torch",
        version=str(version.__version__ if hasattr(version, "__version__") else torch.__version__),
        git_version=getattr(version, "git_version", None),
        cuda=getattr(version, "cuda", None),
        hip=getattr(version, "hip", None),
        xpu=getattr(version, "xpu", None),
        python=platform.python_version(),
        file=torch.__file__,
        seconds=time.perf_counter() - began,
    )


def device_count(kind: str) -> int:
    """How many devices of a kind this process can use; a CPU serves any number of ranks."""
    import torch

    if kind == "cpu":
        return sys.maxsize
    module = getattr(torch, kind, None) or getattr(torch.backends, kind, None)
    if module is None or not module.is_available():
        return 0
    return int(module.device_count()) if hasattr(module, "device_count") else 1


def choose_device(config: Config) -> Any:
    """The first wanted device kind that serves every rank, or None."""
    import torch

    for kind in config["devices"]:
        if device_count(kind) >= config["ranks"]:
            rank = int(os.environ.get("LOCAL_RANK", "0"))
            if kind == "cuda":
                torch.cuda.set_device(rank)
            return torch.device(kind, rank) if kind == "cuda" else torch.device(kind)
    return None


def load_case(config: Config) -> ModuleType:
    """Import the case file under a name that can shadow no module."""
    name = "case_" + config["case"]
    spec = importlib.util.spec_from_file_location(name, config["path"])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# Values that `==` compares rightly.
PLAIN = (bool, int, float, complex, str, bytes, set, frozenset, range, slice)
TORCH_PLAIN = ("torch.dtype", "torch.device", "torch.Size", "torch.layout", "torch.memory_format")


def opaque_leaves(output: Any) -> list[str]:
    """Names of the types in an output that can only be compared by type."""
    import torch
    from torch.utils import _pytree

    types = {
        type(leaf) for leaf in _pytree.tree_leaves(output) if not isinstance(leaf, torch.Tensor)
    }
    names = {qualified_name(cls) for cls in types if not issubclass(cls, (*PLAIN, type(None)))}
    return sorted(names.difference(TORCH_PLAIN))


class Mismatch(Exception):
    """Two results that should be the same are not."""


def call(
    function: Any, module: Any, case: ModuleType, config: Config, device: Any, seed: int
) -> Result:
    """One call, with backward where the case asks for it.

    Returns what is compared: the output, the arguments after the call (an op may write into them),
    the buffers of a module and the gradients of arguments and parameters.
    """
    import torch
    from torch.utils import _pytree

    torch.manual_seed(seed)
    args = case.inputs(device, seed)
    if not isinstance(args, tuple):  # a lone tensor would be taken apart into its rows
        raise TypeError(f"inputs must return a tuple, not a {qualified_name(type(args))}")
    torch.manual_seed(seed)
    if isinstance(module, torch.nn.Module):
        module.zero_grad(set_to_none=True)
    output = function(*args)
    result: Result = {"output": output, "arguments": args, "buffers": {}, "gradients": {}}
    if isinstance(module, torch.nn.Module):
        result["buffers"] = {name: buffer.clone() for name, buffer in module.named_buffers()}
    if config["backward"]:
        wanted = [
            leaf
            for leaf in _pytree.tree_leaves(output)
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad
        ]
        if not wanted and function is module:  # eager; of a compiled one it is a wrong result
            raise ValueError("the case says backward = true, but no output requires a gradient")
        # Random cotangents: a plain sum is blind to every permutation of the output.
        generator = torch.Generator().manual_seed(seed)
        cotangents = [
            torch.randn(leaf.shape, generator=generator).to(leaf.device, leaf.dtype)
            for leaf in wanted
        ]
        if wanted:
            torch.autograd.backward(wanted, cotangents)
        leaves = {
            f"argument {i}": leaf
            for i, leaf in enumerate(_pytree.tree_leaves(args))
            if isinstance(leaf, torch.Tensor)
        }
        if isinstance(module, torch.nn.Module):
            leaves.update(module.named_parameters())
        result["gradients"] = {
            name: leaf.grad for name, leaf in leaves.items() if leaf.is_leaf and leaf.requires_grad
        }
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return result


def compare_tree(what: str, expected: Any, actual: Any, exact: bool = False) -> None:
    """Raise `Mismatch` unless structure is equal and tensors are close.

    Tolerances are those of `torch.testing.assert_close` for the dtype; strides and aliasing are not
    compared. Leaves that are neither tensors nor plain values (opaque handles) are compared by
    type; `opaque_leaves` names them.
    """
    import torch
    from torch.utils import _pytree

    expected_leaves, expected_spec = _pytree.tree_flatten(expected)
    actual_leaves, actual_spec = _pytree.tree_flatten(actual)
    if expected_spec != actual_spec:
        raise Mismatch(f"{what}: eager gives {expected_spec}, compiled gives {actual_spec}")
    for i, (one, other) in enumerate(zip(expected_leaves, actual_leaves, strict=True)):
        if type(one) is not type(other):
            raise Mismatch(
                f"{what}, leaf {i}: eager gives a {qualified_name(type(one))}, "
                f"compiled a {qualified_name(type(other))}"
            )
        if isinstance(one, torch.Tensor):
            tolerance = {"rtol": 0, "atol": 0} if exact else {}
            try:
                torch.testing.assert_close(other, one, equal_nan=True, **tolerance)
            except AssertionError as error:
                raise Mismatch(f"{what}, leaf {i}: {error}") from None
            if one.requires_grad is not other.requires_grad:
                raise Mismatch(
                    f"{what}, leaf {i}: requires_grad is {one.requires_grad} in eager and "
                    f"{other.requires_grad} in compiled"
                )
        elif isinstance(one, PLAIN) or qualified_name(type(one)) in TORCH_PLAIN:
            both_nan = one != one and other != other
            if one != other and not both_nan:
                raise Mismatch(f"{what}, leaf {i}: eager gives {one!r}, compiled gives {other!r}")


def compare(case: ModuleType, expected: Result, actual: Result, exact: bool = False) -> None:
    """Compare two results of `call` by the case's own `check`, else leaf by leaf."""
    check = getattr(case, "check", None)
    if check is not None and not exact:
        try:
            verdict = check(expected["output"], actual["output"])
        except AssertionError as error:
            raise Mismatch(f"check of the case: {text_of(error)}") from error
        if verdict is False:
            raise Mismatch("check of the case returned False")
    else:
        compare_tree("output", expected["output"], actual["output"], exact)
        compare_tree("arguments after the call", expected["arguments"], actual["arguments"], exact)
    compare_tree("buffers", expected["buffers"], actual["buffers"], exact)
    compare_tree("gradients", expected["gradients"], actual["gradients"], exact)


def agree(case: ModuleType, expected: Result, actual: Result, exact: bool = False) -> str | None:
    """None where two results agree, else the sentence that says how they differ."""
    try:
        compare(case, expected, actual, exact)
    except Mismatch as mismatch:
        return text_of(mismatch)
    return None


def reference(case: ModuleType, model: Any, config: Config, device: Any) -> list[Result]:
    """Eager results for every seed, from a copy of the model that nothing else uses."""
    module = copy.deepcopy(model) if hasattr(model, "parameters") else model
    return [call(module, module, case, config, device, seed) for seed in SEEDS]


def probe(config: Config, events: Events) -> None:
    """The whole run of one process. What goes wrong is raised to `main` or written as an event."""
    events.begin("import")
    import_torch(events)
    import torch

    events.begin("case")
    device = choose_device(config)
    if device is None:
        events.put("no_device", wanted=config["devices"], ranks=config["ranks"])
        return
    events.put("device", device=device.type)
    case = load_case(config)
    torch.manual_seed(0)
    model = case.make(device)

    events.begin("eager")
    began = time.perf_counter()
    expected = reference(case, model, config, device)
    again = reference(case, model, config, device)
    events.put("seconds", name="eager", seconds=time.perf_counter() - began)
    unsteady = [agree(case, one, other) for one, other in zip(expected, again, strict=True)]
    exact = [
        agree(case, one, other, exact=True) for one, other in zip(expected, again, strict=True)
    ]

    events.begin("compile")
    began = time.perf_counter()
    phases = Phases(events)
    events.put("phases", available=phases.install())
    # With it set, Dynamo logs a failure and runs eager instead: the case would pass.
    torch._dynamo.config.suppress_errors = False
    module = copy.deepcopy(model) if hasattr(model, "parameters") else model
    compiled = torch.compile(module, **config["compile"])
    actual = [call(compiled, module, case, config, device, seed) for seed in SEEDS]
    events.put("seconds", name="compile", seconds=time.perf_counter() - began)

    events.begin("compare")
    graphs = torch._dynamo.utils.counters["stats"].get("unique_graphs", 0)
    events.put("compiled", graphs=max(phases.graphs, graphs))
    for i, seed in enumerate(SEEDS):
        difference = agree(case, expected[i], actual[i])
        if difference is not None or unsteady[i] is not None:
            events.put(
                "wrong_result",
                seed=seed,
                difference=difference,
                eager_differs=unsteady[i],
                eager_is_exact=exact[i] is None,
            )
            return
    by_type = [] if hasattr(case, "check") else opaque_leaves(expected[0]["output"])
    events.put("agreed", nondeterministic=any(exact), by_type=by_type)


def run_rank(config: Config, events: Events) -> int:
    """Probe, then leave: the exit status tells `torch.distributed.run` whether others may go on."""
    try:
        probe(config, events)
    except unittest.SkipTest as skip:
        if events.step in ("import", "case", "eager"):
            events.put("skip", reason=text_of(skip))
        else:
            report_exception(events, skip)
            return 1
    except BaseException as error:  # noqa: BLE001 - whatever the case raises is the result
        report_exception(events, error)
        return 1
    events.begin("end")
    end_process_group()
    events.put("done")
    return 0


def end_process_group() -> None:
    """Leave the process group that the case made; torch warns at exit where nobody does."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def launch_ranks(config: Config, config_path: str, events: Events) -> int:
    """Start one process a rank and write down how each that failed came to its end."""
    events.begin("import")
    import torch.distributed.run as torchrun
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    events.begin("launch")
    arguments = [f"--nproc-per-node={config['ranks']}", "--nnodes=1", "--standalone"]
    try:
        torchrun.main([*arguments, "--local-addr=127.0.0.1", __file__, config_path])
    except ChildFailedError as error:
        ended = {str(rank): failure.exitcode for rank, failure in error.failures.items()}
        events.put("ranks_ended", exit_codes=ended)
        return 1
    events.put("done")
    return 0


def own_caches(rank: str) -> None:
    """Give a rank caches of its own, before torch looks for them.

    From one that it shares it would take what another rank has just compiled, so that what the
    ranks come to would depend on which of them is first.
    """
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        if variable in os.environ:
            os.environ[variable] = os.path.join(os.environ[variable], rank)


def main(config_path: str) -> int:
    """Entry point; returns the exit status."""
    # Before Python 3.11 nothing else keeps this file's neighbours off the import path.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    with open(config_path, encoding="utf-8") as file:
        config = json.load(file)
    launcher = config["ranks"] > 1 and "RANK" not in os.environ
    name = "launcher" if launcher else os.environ.get("RANK", "0")
    die_with_parent()
    stem = os.path.join(config["events"], name)
    events = Events(stem + ".jsonl")
    crash = open(stem + ".crash", "w", encoding="utf-8")  # noqa: SIM115 - open until the end
    stacks = open(stem + ".stacks", "w", encoding="utf-8")  # noqa: SIM115 - open until the end
    faulthandler.enable(file=crash)
    faulthandler.dump_traceback_later(max(config["deadline"] - time.time(), 0.1), file=stacks)
    events.put("start", pid=os.getpid(), rank=name)
    if launcher:
        return launch_ranks(config, config_path, events)
    own_caches(name)
    return run_rank(config, events)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
