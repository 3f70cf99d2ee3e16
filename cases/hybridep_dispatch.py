# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.10.0.dev0"]
#
# [tool.repro]
# title = "HybridEP dispatch returns an opaque handle"
# issue = "https://github.com/pytorch/torchtitan/issues/3439"
# devices = ["cuda", "cpu"]
# ranks = 1
# timeout = 300
# backward = true
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""HybridEP's dispatch returns an opaque handle, and a post-grad pass rewrites its input.

`x[2:4] = 0` on a buffer that feeds dispatch becomes `_generalized_scatter`, which the pass
`reinplace_inplaceable_ops` rewrites. `FakeTensorUpdater` then runs dispatch again under fake
tensors and compares the outputs with the old ones. Up to 2.12 that comparison knows no opaque
objects: "AssertionError: Unknown type <class DispatchHandle> in graph()". 2.11 gets there only
without gradients; with them its partitioner fails first, since it cannot save the handle.

The operators have HybridEP's schemas, fakes and autograd, for one device (ep_size 1).
"""

import functools
import sys
import unittest

import torch
from torch import nn

try:
    from torch._library import opaque_object
except ImportError:
    opaque_object = None
try:
    from torch._custom_class_base import CustomClassBase as OpaqueBase  # 2.14 and newer
except ImportError:
    try:
        from torch._opaque_base import OpaqueBase  # 2.11 to 2.13
    except ImportError:
        OpaqueBase = None

TOKENS, HIDDEN, INNER, EXPERTS, TOP_K = 16, 8, 12, 4, 2


def unsupported(reason):
    """This torch lacks an interface that the case needs, so there is nothing to test."""
    if __name__ == "__main__":
        print(f"unsupported: {reason}")
        sys.exit(125)
    raise unittest.SkipTest(reason)


if opaque_object is None:
    unsupported("this torch has no torch._library.opaque_object (2.10 and newer)")
if OpaqueBase is None:
    unsupported("this torch has no base class for opaque operator outputs (2.11 and newer)")


class DispatchHandle(OpaqueBase):
    """What combine and both backward operators must know about a dispatch.

    Wraps (row_of, topk_idx): row and expert of each (token, k). A copy that was dropped has a row
    one past the last. Fakes return an empty handle. Handles compare by identity of what they wrap.
    """

    def __init__(self, value=None):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, DispatchHandle) and self.value is other.value

    def __hash__(self):
        return id(self.value)


try:
    if hasattr(opaque_object, "register_custom_class"):  # 2.14 and newer
        opaque_object.register_custom_class(DispatchHandle, typ="symbolic")
    else:
        opaque_object.register_opaque_type(DispatchHandle, typ="reference")
except TypeError as error:
    unsupported(f"this torch registers opaque classes in another way: {error}")
HANDLE = opaque_object.get_opaque_type_name(DispatchHandle)
# Raw schemas, because torch.library.custom_op of 2.11 refuses to infer an opaque return type.
lib = torch.library.Library("hybridep", "DEF")
lib.define(
    "dispatch(Tensor x, Tensor topk_idx, Tensor topk_weights, int num_experts, int ep_size, "
    "str group_name, bool non_blocking=False, float? moe_expert_capacity_factor=None, "
    f"int? pad_multiple=None) -> (Tensor, Tensor, Tensor, {HANDLE})"
)
lib.define(f"combine(Tensor x, {HANDLE} handle, int num_tokens, int? pad_multiple=None) -> Tensor")
lib.define(
    f"dispatch_bwd(Tensor grad, {HANDLE} handle, int num_permuted_tokens, int? pad_multiple=None)"
    " -> Tensor"
)
lib.define(
    f"combine_bwd(Tensor grad_hidden, Tensor grad_scores, {HANDLE} handle, int num_tokens, "
    "int num_experts) -> (Tensor, Tensor)"
)
ops = torch.ops.hybridep


def implement(real, fake):
    """Register an operator's two implementations under the name of the real one."""
    lib.impl(real.__name__, real, "CPU")
    lib.impl(real.__name__, real, "CUDA")
    torch.library.register_fake(f"hybridep::{real.__name__}", fake, lib=lib)


def round_up(n, multiple):
    """Round a number or a tensor up to a multiple, where one is asked for."""
    return n if multiple is None else -(-n // multiple) * multiple


def capacity(num_tokens, top_k, num_experts, ep_size, factor, pad_multiple):
    """Rows of the permuted buffer in non-blocking mode, which cannot wait for the counts."""
    copies = num_tokens * ep_size * min(num_experts // ep_size, top_k)
    return round_up(int(copies * factor), pad_multiple)


def to_rows(x, row_of, rows):
    """[tokens, k, ...] to [rows, ...]. Dropped copies go to an extra row that is cut off."""
    out = x.new_zeros(rows + 1, *x.shape[2:])
    out[row_of] = x
    return out[:rows]


def to_tokens(x, row_of):
    """[rows, ...] to [tokens, k, ...], zero where a copy was dropped."""
    return torch.cat([x, x.new_zeros(1, *x.shape[1:])])[row_of]


def dispatch(x, topk_idx, topk_weights, num_experts, ep_size, group_name,
             non_blocking=False, factor=None, pad_multiple=None):  # fmt: skip
    """Give each (token, k) a row, grouped by expert, each group padded with zeros to pad_multiple.

    In non-blocking mode, what exceeds the buffer is dropped silently. The returned counts include
    padding and dropped copies.
    """
    assert ep_size == 1, "one device"
    chosen = nn.functional.one_hot(topk_idx.flatten(), num_experts)
    counts = round_up(chosen.sum(0), pad_multiple)
    first_row = counts.cumsum(0) - counts
    row_of = ((first_row + chosen.cumsum(0) - 1) * chosen).sum(1).view_as(topk_idx)
    if non_blocking:
        rows = capacity(*topk_idx.shape, num_experts, ep_size, factor, pad_multiple)
    else:
        rows = int(counts.sum())
    row_of = row_of.clamp(max=rows)
    hidden = to_rows(x[:, None].expand(-1, topk_idx.shape[1], -1), row_of, rows)
    scores = to_rows(topk_weights.float(), row_of, rows)
    return hidden, scores, counts, DispatchHandle((row_of, topk_idx.clone()))


def dispatch_fake(x, topk_idx, topk_weights, num_experts, ep_size, group_name,
                  non_blocking=False, factor=None, pad_multiple=None):  # fmt: skip
    """As in HybridEP the rows are only right if non-blocking, else they depend on data."""
    rows = len(x)
    if non_blocking:
        rows = capacity(*topk_idx.shape, num_experts, ep_size, factor, pad_multiple)
    hidden = x.new_empty(rows, x.shape[1])
    scores = x.new_empty(rows, dtype=torch.float32)
    counts = x.new_empty(num_experts // ep_size, dtype=torch.int64)
    return hidden, scores, counts, DispatchHandle()


def combine(x, handle, num_tokens, pad_multiple=None):
    """Sum the rows of each token. Unlike index_add_ this is deterministic on a GPU too."""
    return to_tokens(x, handle.value[0]).sum(1)


def dispatch_bwd(grad, handle, num_permuted_tokens, pad_multiple=None):
    """Backward of combine: each row gets the gradient of its token."""
    row_of, _ = handle.value
    return to_rows(grad[:, None].expand(-1, row_of.shape[1], -1), row_of, num_permuted_tokens)


def combine_bwd(grad_hidden, grad_scores, handle, num_tokens, num_experts):
    """Backward of dispatch: gradients of x and of the [tokens, experts] routing weights."""
    row_of, topk_idx = handle.value
    grad_probs = grad_scores.new_zeros(num_tokens, num_experts)
    grad_probs.scatter_(1, topk_idx, to_tokens(grad_scores, row_of))
    return combine(grad_hidden, handle, num_tokens), grad_probs


def combine_bwd_fake(grad_hidden, grad_scores, handle, num_tokens, num_experts):
    """Shapes of combine_bwd."""
    grad_x = grad_hidden.new_empty(num_tokens, grad_hidden.shape[1])
    return grad_x, grad_scores.new_empty(num_tokens, num_experts)


implement(dispatch, dispatch_fake)
implement(combine, lambda x, handle, n, pad=None: x.new_empty(n, x.shape[1]))
implement(dispatch_bwd, lambda x, handle, n, pad=None: x.new_empty(n, x.shape[1]))
implement(combine_bwd, combine_bwd_fake)


def dispatch_setup(ctx, inputs, output):
    """Keep the handle for backward."""
    ctx.save_for_backward(inputs[1])
    ctx.num_experts, ctx.handle = inputs[3], output[3]


def dispatch_backward(ctx, grad_hidden, grad_scores, grad_counts, grad_handle):
    """Gradients of dispatch's nine arguments."""
    (topk_idx,) = ctx.saved_tensors
    grad_x, grad_probs = ops.combine_bwd(
        grad_hidden, grad_scores, ctx.handle, topk_idx.shape[0], ctx.num_experts
    )
    return grad_x, None, grad_probs.gather(1, topk_idx), *[None] * 6


def combine_setup(ctx, inputs, output):
    """Keep the handle for backward."""
    x, ctx.handle, _, ctx.pad_multiple = inputs
    ctx.rows = x.shape[0]


def combine_backward(ctx, grad):
    """Gradients of combine's four arguments."""
    return ops.dispatch_bwd(grad, ctx.handle, ctx.rows, ctx.pad_multiple), None, None, None


for name, backward, setup in [
    ("dispatch", dispatch_backward, dispatch_setup),
    ("combine", combine_backward, combine_setup),
]:
    torch.library.register_autograd(f"hybridep::{name}", backward, setup_context=setup, lib=lib)


class MoE(nn.Module):
    """Dispatch, a two-layer expert each, combine."""

    def __init__(self):
        super().__init__()
        random = torch.Generator().manual_seed(0)
        w1 = torch.randn(EXPERTS, HIDDEN, INNER, generator=random) / HIDDEN**0.5
        w2 = torch.randn(EXPERTS, INNER, HIDDEN, generator=random) / INNER**0.5
        self.w1, self.w2 = nn.Parameter(w1), nn.Parameter(w2)

    def forward(self, x, topk_idx, topk_weights):
        """Return [tokens, hidden] and the number of tokens of each expert."""
        x = x.clone()
        x[2:4] = 0  # the write that the post-grad pass rewrites
        # Non-blocking at factor 1: as many rows as the fake says, and nothing is dropped.
        hidden, scores, counts, handle = ops.dispatch(
            x, topk_idx, topk_weights, EXPERTS, 1, "", True, 1.0
        )
        # Every expert runs on all rows and a mask keeps its own, so that all shapes are static.
        row = torch.arange(hidden.shape[0], device=x.device)
        end = counts.cumsum(0)[:, None]
        own = (row >= end - counts[:, None]) & (row < end)
        y = nn.functional.silu(hidden @ self.w1) @ self.w2
        y = (y * own[:, :, None]).sum(0) * scores[:, None]
        return ops.combine(y, handle, x.shape[0]), counts


def dense(model, x, topk_idx, topk_weights):
    """The same mixture of experts in float64, without dispatch and combine."""
    x = x.clone()
    x[2:4] = 0
    x, out = x.double(), 0
    for e in range(EXPERTS):
        weight = (topk_weights.double() * (topk_idx == e)).sum(1, keepdim=True)
        out += weight * (nn.functional.silu(x @ model.w1[e].double()) @ model.w2[e].double())
    return out, torch.bincount(topk_idx.flatten(), minlength=EXPERTS)


def run(function, model, device, seed):
    """Outputs of one seed, then the gradients of x, topk_weights and the experts' weights."""
    x, topk_idx, topk_weights = inputs(device, seed)
    out, counts = function(x, topk_idx, topk_weights)
    cotangent = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed)).to(out)
    wanted = x, topk_weights, *model.parameters()
    return out, counts, *torch.autograd.grad(out, wanted, cotangent)


close = functools.partial(torch.testing.assert_close, atol=1e-5, rtol=1e-4, check_dtype=False)


def four_operators(args, *options):
    """The tensors that the four operators return."""
    hidden, scores, counts, handle = ops.dispatch(*args, EXPERTS, 1, "", *options)
    rows = ops.dispatch_bwd(args[0], handle, len(hidden))
    grads = ops.combine_bwd(hidden, scores, handle, TOKENS, EXPERTS)
    return hidden, scores, counts, rows, *grads, ops.combine(hidden, handle, TOKENS)


@torch.no_grad()
def check_operators(device, seed):
    """What the operators promise beyond what the model uses."""
    args = x, topk_idx, topk_weights = inputs(device, seed)
    copies = TOKENS * TOP_K
    hidden, scores, counts, handle = ops.dispatch(*args, EXPERTS, 1, "")  # blocking
    assert counts.sum() == copies
    assert counts[seed % EXPERTS] == 0, "one expert has no tokens"
    order = topk_idx.flatten().argsort(stable=True)  # sorting by expert gives the same rows
    close((hidden, scores), (x[order // TOP_K], topk_weights.flatten()[order]), atol=0, rtol=0)
    # Identity experts give x back, since the weights of a token sum to one.
    close(ops.combine(hidden * scores[:, None], handle, TOKENS), x)
    # With half the capacity the second half of the rows is dropped.
    half, _, _, other = ops.dispatch(*args, EXPERTS, 1, "", True, 0.5)
    assert half.equal(hidden[: copies // 2])
    assert other != handle
    hidden[copies // 2 :] = 0
    close(ops.combine(half, other, TOKENS), ops.combine(hidden, handle, TOKENS))
    # Groups are padded with zeros.
    hidden, scores, counts, _ = ops.dispatch(*args, EXPERTS, 1, "", False, None, 8)
    assert len(hidden) == counts.sum()
    assert not (counts % 8).any()
    assert not hidden[scores == 0].any()
    # Fakes have the shapes of real results where those do not depend on data.
    meta = [a.to("meta") for a in args]
    for options in [(True, 1.0), (True, 0.5), (True, 1.0, 24)]:
        results = four_operators(args, *options), four_operators(meta, *options)
        for real, fake in zip(*results, strict=True):
            assert (real.shape, real.dtype) == (fake.shape, fake.dtype)


def make(device):
    """The model. Eager is checked against float64 here, so compiled only has to match eager."""
    model = MoE().to(device)
    reference = functools.partial(dense, model)
    for seed in (0, 1):
        close(run(model, model, device, seed), run(reference, model, device, seed))
        check_operators(device, seed)
    return model


def inputs(device, seed):
    """x, topk_idx, topk_weights. The seed decides the routing too, and which expert is idle."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(TOKENS, HIDDEN, generator=random)
    logits = torch.randn(TOKENS, EXPERTS, generator=random)
    logits[:, seed % EXPERTS] = -torch.inf
    topk_weights, topk_idx = logits.topk(TOP_K)
    x, topk_weights = x.to(device), topk_weights.softmax(1).to(device)
    return x.requires_grad_(), topk_idx.to(device), topk_weights.requires_grad_()


def main():
    """Compile the model and compare it with eager, forward and backward, for two routings."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = make(device)
    compiled = torch.compile(model, backend="inductor", fullgraph=True)
    for seed in (0, 1):
        close(run(compiled, model, device, seed), run(model, model, device, seed))
    print(f"passed: torch {torch.__version__} on {device}, forward and backward of two routings")


if __name__ == "__main__":
    main()
