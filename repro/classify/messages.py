"""From the classes and texts of exceptions to a stage, and what is missing on this machine."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repro.outcome import Raised

_TRITON = "install triton for this build, or run with --device cpu"
# (class, text, what is missing, what to do). Looked for in every exception of the chain, before
# phases and frames: the machine, not the build, is the cause.
_ENVIRONMENT: tuple[tuple[str, str, str, str], ...] = (
    (r".*\.Triton(Missing|UnavailableError)", r"", "inductor finds no working triton", _TRITON),
    (r".*", r"Cannot find a working triton", "inductor finds no working triton", _TRITON),
    (r".*\.GPUTooOldForTriton", r"", "the GPU is too old for triton", "use --device cpu"),
    (
        r".*",
        r"too old to be supported by the triton",
        "the GPU is too old for triton",
        "use --device cpu",
    ),
    (
        r".*",
        r"No working C\+\+ compiler found|InvalidCxxCompiler|Compiler: \S+ is not found",
        "there is no working C++ compiler, which inductor needs for the CPU",
        "install g++ or clang++ and have it on PATH, or name it in CXX",
    ),
    (
        r".*",
        r"fatal error: '?Python\.h'?",
        "the headers of this Python (Python.h) are missing, which compiled kernels include",
        "install the development package of this Python (python3-dev)",
    ),
    (
        r".*",
        r"cannot find -lcuda",
        "the linker finds no libcuda",
        "install the NVIDIA driver's development link, or use --device cpu",
    ),
    (
        r".*",
        r"No CUDA GPUs are available|Found no NVIDIA driver",
        "there is no GPU or no driver here",
        "use --device cpu, if the case can",
    ),
    (
        r".*",
        r"No space left on device|Disk quota exceeded",
        "the disk is full",
        "make room or point TMPDIR elsewhere",
    ),
    (
        r"MemoryError|.*\.OutOfMemoryError",
        r"",
        "this machine has too little memory for the case",
        "free memory or make the case smaller",
    ),
    (
        r".*",
        r"DefaultCPUAllocator: can't allocate memory|CUDA out of memory",
        "this machine has too little memory for the case",
        "free memory or make the case smaller",
    ),
)
# The build lacks an API that the case needs, wherever that shows.
UNSUPPORTED: tuple[tuple[str, str], ...] = (
    (r".*", r"Return has unsupported type"),
    (r".*", r"FallbackKernel output type .* is not supported"),
    (r".*", r"An opaque object was created in the middle of the program"),
    (r".*\.InvalidBackend", r""),
)
# While the case is being loaded or set up: a name that this torch does not have.
UNSUPPORTED_AT_LOAD: tuple[tuple[str, str], ...] = (
    (r"ModuleNotFoundError", r"No module named '(torch|functorch)\b"),
    (r"ImportError", r"cannot import name .* from (partially initialized module )?'torch\b"),
    (r"AttributeError", r"(module|type object|object) '?torch\b.* has no attribute"),
    (r"AttributeError", r"'_OpNamespace' '.*' object has no attribute|torch\.ops"),
    (r"TypeError", r"unexpected keyword argument"),
)
# Where neither phases nor frames say anything.
_MESSAGES: tuple[tuple[str, str, str], ...] = (
    ("dynamo_guards", r".*\.(FailOnRecompileLimitHit|RecompileLimitExceeded|RecompileError)", r""),
    ("dynamo_guards", r".*\.ConstraintViolationError", r""),
    ("dynamo_guards", r".*", r"Guard failed on the same frame it was created"),
    ("autotuning", r".*\.NoValidChoicesError", r""),
    # A wrapper's text begins with the class that it wraps.
    ("autotuning", r".*", r"\bNoValidChoicesError: "),
    ("kernel_compile", r".*", r"^(backend='\w+' raised:\n)?(CppCompileError|SubprocException): "),
    ("inductor_lowering", r".*", r"^(backend='\w+' raised:\n)?LoweringException: "),
    # Operations (2.5 and newer) are looked up by name in the scheduler alone.
    ("inductor_scheduling", r".*", r"^(KeyError: )?'op\d+'$"),
    ("dynamo_tracing", r".*\.UnsafeScriptObjectError", r"access unregistered member"),
    ("inductor_lowering", r".*\.(LoweringException|MissingOperatorWith(out)?Decomp)", r""),
    ("kernel_compile", r".*\.(CppCompileError|CUDACompileError|XPUCompileError)", r""),
    ("kernel_compile", r".*\.SubprocException|.*\.BrokenProcessPool", r""),
    ("kernel_compile", r"triton\..*\.CompilationError", r""),
    ("dynamo_fake_tensor", r".*\.TorchRuntimeError", r""),
    ("dynamo_fake_tensor", r".*", r"There was no fake impl registered"),
    ("dynamo_tracing", r".*\.(UncapturedHigherOrderOpError|InternalTorchDynamoError)", r""),
    ("cudagraphs", r".*", r"tensor output of CUDAGraphs that has been overwritten"),
    ("dynamo_tracing", r"RuntimeError", r"found no compiled frames"),
)
# Unsupported is Dynamo's own answer, except where it carries a failure of the backend
# (2.6: text; 2.7 and newer: the gb_type).
_DYNAMO_ANSWER = re.compile(r"torch\._dynamo\.exc\.(Unsupported|UserError)")
_BACKEND_ANSWER = re.compile(
    r"Backend compiler exception|Backend compiler failed with a fake tensor exception"
)
_FOREIGN_MODULE = re.compile(r"No module named '(?!torch\b|functorch\b)(?P<name>[^']+)'")


def says(chain: Sequence[Raised], rules: Sequence[tuple[str, str]]) -> bool:
    """Whether an exception of the chain matches a rule: its class or a base, and its text."""
    return any(
        any(re.fullmatch(cls, name) for name in (raised.type, *raised.bases))
        and re.search(text, raised.message)
        for raised in chain
        for cls, text in rules
    )


def missing_module(chain: Sequence[Raised]) -> str | None:
    """The module, not one of torch's, that could not be imported."""
    for raised in reversed(chain):
        if raised.type == "ModuleNotFoundError" and (
            found := _FOREIGN_MODULE.search(raised.message)
        ):
            return found["name"]
    return None


def missing_here(chain: Sequence[Raised]) -> tuple[str, str] | None:
    """What this machine lacks and what to do, where an exception of the chain says so."""
    for cls, text, missing, hint in _ENVIRONMENT:
        if says(chain, ((cls, text),)):
            return missing, hint
    return None


def environment_reason(chain: Sequence[Raised], stage: str) -> tuple[str, str]:
    """The sentence behind `untestable`, and what to do about it."""
    innermost = f"{chain[-1].type}: {chain[-1].message.strip().partition(chr(10))[0]}"
    if module := missing_module(chain):
        return (
            f"the Python module {module!r}, which is not one of torch's, cannot be imported",
            "install it into the environment, or have the case raise unittest.SkipTest without it",
        )
    if found := missing_here(chain):
        return found
    if stage == "import":
        return (
            f"torch cannot be imported: {innermost}",
            "name another build with --build, or install torch for this interpreter",
        )
    return f"something on this machine is missing: {innermost}", "mend that and run it again"


def stage_of_messages(chain: Sequence[Raised]) -> str | None:
    """The stage that classes and texts name, innermost exception first; None where none does."""
    for raised in reversed(chain):
        for stage, cls, text in _MESSAGES:
            names = (raised.type, *raised.bases)
            if any(re.fullmatch(cls, name) for name in names) and re.search(text, raised.message):
                return stage
    if (
        chain
        and _DYNAMO_ANSWER.fullmatch(chain[0].type)
        and not _BACKEND_ANSWER.search(chain[0].message)
    ):
        return "dynamo_tracing"
    return None
