"""The stages of a compile, in pipeline order, as data.

A stage is the innermost compile phase that was open when the exception that finally reached the
caller (or its deepest chained cause) was first raised; it is not the root cause.
"""

from __future__ import annotations

from dataclasses import dataclass

from repro.outcome import Kind

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Stage:
    """One stage.

    Args:
        id: the word in outcomes and reports.
        kind: what an outcome in this stage is; only `Kind.FAIL` says something about the build.
        title: what torch is doing there, in a few words.
    """

    id: str
    kind: Kind
    title: str


# In pipeline order.
STAGES: tuple[Stage, ...] = (
    Stage("install", Kind.UNTESTABLE, "making the environment"),
    Stage("import", Kind.UNTESTABLE, "importing torch"),
    Stage("environment", Kind.UNTESTABLE, "something on this machine is missing"),
    Stage("unsupported_case", Kind.UNSUPPORTED, "the build lacks an API that the case needs"),
    Stage("eager_reference", Kind.FAIL, "the case itself, without torch.compile"),
    Stage("dynamo_tracing", Kind.FAIL, "Dynamo reads the Python bytecode"),
    Stage("dynamo_fake_tensor", Kind.FAIL, "Dynamo runs an op on fake tensors"),
    Stage("dynamo_guards", Kind.FAIL, "Dynamo builds or checks guards, recompile limits"),
    Stage("pre_grad_passes", Kind.FAIL, "inductor's passes before autograd"),
    Stage("aot_metadata", Kind.FAIL, "AOTAutograd collects metadata"),
    Stage("aot_joint_trace", Kind.FAIL, "AOTAutograd traces forward and backward"),
    Stage("joint_passes_partition", Kind.FAIL, "joint-graph passes and the partitioner"),
    Stage("post_grad_passes", Kind.FAIL, "inductor's passes after autograd"),
    Stage("inductor_lowering", Kind.FAIL, "inductor lowers the graph to its IR"),
    Stage("autotuning", Kind.FAIL, "inductor benchmarks its choices"),
    Stage("inductor_scheduling", Kind.FAIL, "inductor orders and fuses"),
    Stage("inductor_codegen", Kind.FAIL, "inductor writes code"),
    Stage("kernel_compile", Kind.FAIL, "the generated code is compiled and loaded"),
    Stage("cudagraphs", Kind.FAIL, "CUDA graphs are recorded or replayed"),
    Stage("runtime", Kind.FAIL, "the compiled code runs"),
    Stage("accuracy", Kind.FAIL, "the compiled code gives another result than eager"),
    Stage(UNKNOWN, Kind.FAIL, "no evidence says where"),
)
ORDER = {stage.id: place for place, stage in enumerate(STAGES)}
KIND = {stage.id: stage.kind for stage in STAGES}
TITLE = {stage.id: stage.title for stage in STAGES}
