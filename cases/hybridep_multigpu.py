# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.10.0.dev0"]
#
# [tool.repro]
# title = "HybridEP dispatch between ranks returns an opaque handle"
# issue = "https://github.com/pytorch/torchtitan/issues/3439"
# devices = ["cuda", "cpu"]
# ranks = 2
# timeout = 300
# backward = true
#
# [tool.repro.compile]
# backend = "inductor"
# fullgraph = true
# ///
"""The failure of hybridep_dispatch, with tokens that really travel between ranks.

Each rank holds some of the experts. Dispatch sends tokens to the ranks of their experts (gloo on
CPU, NCCL on GPUs, DeepEP's kernels where deep_ep is installed) and returns an opaque handle, by
which combine and both backward operators find the way back. A post-grad pass rewrites dispatch's
input, and 2.11 and 2.12 fail as they do for hybridep_dispatch.

Plain python starts two ranks; torchrun with any number that divides the number of experts works.
"""

import atexit
import os
import subprocess
import sys
import unittest
from typing import NamedTuple

import torch
import torch.distributed as dist
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

TOKENS, HIDDEN, INNER, EXPERTS, TOP_K = 16, 512, 12, 4, 2  # a width that DeepEP takes
buffer = None  # a deep_ep.HybridEPBuffer where there is one, see join


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

    Wraps a Route, or DeepEP's tuple of routing maps and which rows it left unset. Fakes return an
    empty handle. Handles compare by identity of what they wrap.
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
lib = torch.library.Library("hybridep_ranks", "DEF")
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
ops = torch.ops.hybridep_ranks


def implement(real, fake):
    """Register an operator's two implementations under the name of the real one."""
    lib.impl(real.__name__, real, "CPU")
    lib.impl(real.__name__, real, "CUDA")
    torch.library.register_fake(f"hybridep_ranks::{real.__name__}", fake, lib=lib)


def round_up(n, multiple):
    """Round a number or a tensor up to a multiple, where one is asked for."""
    return n if multiple is None else -(-n // multiple) * multiple


def capacity(num_tokens, top_k, num_experts, ep_size, factor, pad_multiple):
    """Rows of the permuted buffer in non-blocking mode, which cannot wait for the counts."""
    copies = num_tokens * ep_size * min(num_experts // ep_size, top_k)
    return round_up(int(copies * factor), pad_multiple)


class Route(NamedTuple):
    """How the (token, k) copies of this rank travel, and where those that came here lie."""

    topk_idx: torch.Tensor
    order: torch.Tensor  # this rank's copies sorted by expert, and so by rank
    sent: list[int]  # number of copies to each rank
    received: list[int]  # number of copies from each rank
    row_of: torch.Tensor  # row of each received copy; one past the last if it was dropped
    group: dist.ProcessGroup


def exchange(x, send, receive, group):
    """Send rows to each rank and return the rows from each, in the order of ranks."""
    out = x.new_empty(sum(receive), *x.shape[1:])
    dist.all_to_all_single(out, x.contiguous(), receive, send, group=group)
    return out


def to_rows(x, route, rows):
    """[tokens, k, ...] here to [rows, ...] at the experts. An extra row takes dropped copies."""
    x = exchange(x.flatten(0, 1)[route.order], route.sent, route.received, route.group)
    out = x.new_zeros(rows + 1, *x.shape[1:])
    out[route.row_of] = x
    return out[:rows]


def to_tokens(x, route):
    """[rows, ...] at the experts back to [tokens, k, ...], zero where a copy was dropped."""
    x = torch.cat([x, x.new_zeros(1, *x.shape[1:])])[route.row_of]
    x = exchange(x, route.received, route.sent, route.group)
    out = torch.empty_like(x)
    out[route.order] = x
    return out.unflatten(0, route.topk_idx.shape)


def deep_ep_dispatch(x, topk_idx, topk_weights, num_experts, here, rows, pad_multiple):
    """Dispatch with DeepEP's kernels.

    This and the other uses of buffer were written from deep_ep/hybrid_ep_buffer.py of DeepEP's
    branch hybrid-ep (the version whose dispatch_with_permute takes non_blocking) and never run.
    DeepEP leaves the rows behind the last group unset; they are cleared, as without it.
    """
    from deep_ep.hybrid_ep_buffer import indices_to_map

    routing_map, probs = indices_to_map(topk_idx, topk_weights.float(), len(x), num_experts)
    hidden, scores, _, counts, handle = buffer.dispatch_with_permute(
        hidden=x,
        routing_map=routing_map,
        probs=probs,
        num_of_experts_per_rank=here,
        num_permuted_tokens=rows,
        pad_multiple=pad_multiple,
        non_blocking=rows is not None,
    )
    counts = counts.to(x.device, torch.int64)
    unset = torch.arange(len(hidden), device=x.device) >= counts.sum()
    hidden, scores = hidden.masked_fill(unset[:, None], 0), scores.masked_fill(unset, 0)
    return hidden, scores, counts, DispatchHandle((handle, unset))


def dispatch(x, topk_idx, topk_weights, num_experts, ep_size, group_name,
             non_blocking=False, factor=None, pad_multiple=None):  # fmt: skip
    """Send tokens to their experts. Rows are grouped by expert, groups padded to pad_multiple.

    In non-blocking mode, what exceeds the buffer is dropped silently. The returned counts include
    padding and dropped copies.
    """
    group = dist.distributed_c10d._resolve_process_group(group_name)
    assert group.size() == ep_size
    rows, here = None, num_experts // ep_size
    if non_blocking:
        rows = capacity(*topk_idx.shape, num_experts, ep_size, factor, pad_multiple)
    if buffer is not None:
        return deep_ep_dispatch(x, topk_idx, topk_weights, num_experts, here, rows, pad_multiple)
    expert = topk_idx.flatten()
    order = expert.argsort(stable=True)
    sent = nn.functional.one_hot(expert // here, ep_size).sum(0)
    received = exchange(sent, [1] * ep_size, [1] * ep_size, group).tolist()
    sent = sent.tolist()
    expert = exchange(expert[order], sent, received, group) - group.rank() * here
    chosen = nn.functional.one_hot(expert, here)
    counts = round_up(chosen.sum(0), pad_multiple)
    first_row = counts.cumsum(0) - counts
    row_of = ((first_row + chosen.cumsum(0) - 1) * chosen).sum(1)
    rows = int(counts.sum()) if rows is None else rows
    route = Route(topk_idx.clone(), order, sent, received, row_of.clamp(max=rows), group)
    hidden = to_rows(x[:, None].expand(-1, topk_idx.shape[1], -1), route, rows)
    scores = to_rows(topk_weights.float(), route, rows)
    return hidden, scores, counts, DispatchHandle(route)


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
    """Bring the rows of each token back and sum them."""
    if buffer is not None:
        return buffer.combine_with_unpermute(hidden=x, handle=handle.value[0])[0]
    return to_tokens(x, handle.value).sum(1)


def dispatch_bwd(grad, handle, num_permuted_tokens, pad_multiple=None):
    """Backward of combine: each row gets the gradient of its token."""
    if buffer is not None:
        maps, unset = handle.value
        out = buffer.dispatch_with_permute(
            hidden=grad.contiguous(),
            handle=maps,
            num_permuted_tokens=num_permuted_tokens,
            pad_multiple=pad_multiple,
        )
        return out[0].masked_fill(unset[:, None], 0)
    route = handle.value
    grad = grad[:, None].expand(-1, route.topk_idx.shape[1], -1)
    return to_rows(grad, route, num_permuted_tokens)


def combine_bwd(grad_hidden, grad_scores, handle, num_tokens, num_experts):
    """Backward of dispatch: gradients of x and of the [tokens, experts] routing weights."""
    if buffer is not None:
        return buffer.combine_with_unpermute(
            hidden=grad_hidden, probs=grad_scores, handle=handle.value[0]
        )
    route = handle.value
    grad_probs = grad_scores.new_zeros(num_tokens, num_experts)
    grad_probs.scatter_(1, route.topk_idx, to_tokens(grad_scores, route))
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
    op = f"hybridep_ranks::{name}"
    torch.library.register_autograd(op, backward, setup_context=setup, lib=lib)


def join(device):
    """Join the process group that torchrun prepared, once; use deep_ep where there is one."""
    global buffer
    if dist.is_initialized():
        return
    if device.type == "cuda":
        local_rank, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local_rank >= gpus:
            raise RuntimeError(f"each rank needs a GPU of its own; there are {gpus}")
        torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    atexit.register(lambda: dist.is_initialized() and dist.destroy_process_group())
    assert EXPERTS % dist.get_world_size() == 0
    if device.type == "cuda":
        try:
            from deep_ep import HybridEPBuffer
        except ImportError:
            return
        here = EXPERTS // dist.get_world_size()
        buffer = HybridEPBuffer(dist.group.WORLD, HIDDEN, TOKENS, here)


def mine(tensor):
    """This rank's part of a tensor of all ranks."""
    return tensor.chunk(dist.get_world_size())[dist.get_rank()].clone()


class MoE(nn.Module):
    """Dispatch, a two-layer expert each, combine. Each rank has its own experts."""

    def __init__(self):
        super().__init__()
        self.ranks, self.group_name = dist.get_world_size(), dist.group.WORLD.group_name
        random = torch.Generator().manual_seed(0)
        w1 = torch.randn(EXPERTS, HIDDEN, INNER, generator=random) / HIDDEN**0.5
        w2 = torch.randn(EXPERTS, INNER, HIDDEN, generator=random) / INNER**0.5
        self.w1, self.w2 = nn.Parameter(mine(w1)), nn.Parameter(mine(w2))

    def forward(self, x, topk_idx, topk_weights):
        """Return [tokens, hidden] and the number of tokens of each expert here."""
        x = x.clone()
        x[2:4] = 0  # the write that the post-grad pass rewrites
        # Non-blocking at factor 1: as many rows as the fake says, and nothing is dropped.
        hidden, scores, counts, handle = ops.dispatch(
            x, topk_idx, topk_weights, EXPERTS, self.ranks, self.group_name, True, 1.0
        )
        # Every expert runs on all rows and a mask keeps its own, so that all shapes are static.
        row = torch.arange(hidden.shape[0], device=x.device)
        end = counts.cumsum(0)[:, None]
        own = (row >= end - counts[:, None]) & (row < end)
        y = nn.functional.silu(hidden.float() @ self.w1) @ self.w2
        y = (y * own[:, :, None]).sum(0) * scores[:, None]
        return ops.combine(y.to(x.dtype), handle, x.shape[0]), counts


def data(seed, rank):
    """x, topk_idx, topk_weights and the cotangent of one rank."""
    random = torch.Generator().manual_seed(1000 * seed + rank)
    x, cotangent = torch.randn(2, TOKENS, HIDDEN, generator=random)
    logits = torch.randn(TOKENS, EXPERTS, generator=random)
    logits[:, seed % EXPERTS] = -torch.inf  # this expert has no tokens from any rank
    topk_weights, topk_idx = logits.topk(TOP_K)
    return x, topk_idx, topk_weights.softmax(1), cotangent


def data_of_all_ranks(device, seed):
    """The same for all ranks, one after the other."""
    parts = zip(*(data(seed, rank) for rank in range(dist.get_world_size())), strict=True)
    return [torch.cat(part).to(device) for part in parts]


def run(function, model, device, seed):
    """Outputs of one seed, then the gradients of x, topk_weights and the experts' weights."""
    x, topk_idx, topk_weights = inputs(device, seed)
    out, counts = function(x, topk_idx, topk_weights)
    wanted = x, topk_weights, *model.parameters()
    cotangent = data(seed, dist.get_rank())[3].to(out)
    return out, counts, *torch.autograd.grad(out, wanted, cotangent)


def dense(model, device, seed):
    """What run should return, in float64, without dispatch and combine.

    Each rank computes the tokens of all ranks with the experts of all ranks, and keeps its part.
    """
    x, topk_idx, topk_weights, cotangent = data_of_all_ranks(device, seed)
    wanted = [x.double(), topk_weights.double()]
    for parameter in model.parameters():
        parts = [torch.empty_like(parameter) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, parameter.detach())
        wanted.append(torch.cat(parts).double())
    x, topk_weights, w1, w2 = [t.requires_grad_() for t in wanted]
    x = x.unflatten(0, (-1, TOKENS)).clone()
    x[:, 2:4] = 0
    x, out = x.flatten(0, 1), 0
    for e in range(EXPERTS):
        weight = (topk_weights * (topk_idx == e)).sum(1, keepdim=True)
        out += weight * (nn.functional.silu(x @ w1[e]) @ w2[e])
    counts = torch.bincount(topk_idx.flatten(), minlength=EXPERTS)
    grads = torch.autograd.grad(out, wanted, cotangent.double())
    return tuple(mine(t) for t in (out, counts, *grads))


def close(actual, expected):
    """Compare results. DeepEP moves tokens as bfloat16, so there only norms count."""
    if buffer is None:
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-4, check_dtype=False)
        return
    for a, e in zip(actual, expected, strict=True):
        assert (a.double() - e.double()).norm() <= 0.02 * e.double().norm()


def four_operators(args, *options):
    """The tensors that the four operators return."""
    hidden, scores, counts, handle = ops.dispatch(*args, *options)
    rows = ops.dispatch_bwd(args[0], handle, len(hidden))
    grads = ops.combine_bwd(hidden, scores, handle, TOKENS, EXPERTS)
    return hidden, scores, counts, rows, *grads, ops.combine(hidden, handle, TOKENS)


@torch.no_grad()
def check_operators(model, device, seed):
    """What the operators promise beyond what the model uses."""
    args = x, _, _ = inputs(device, seed)
    where = EXPERTS, model.ranks, model.group_name
    hidden, scores, counts, handle = ops.dispatch(*args, *where)  # blocking
    # Sorting the copies of all ranks by expert gives the same rows.
    all_x, all_idx, all_weights, _ = data_of_all_ranks(device, seed)
    all_counts = torch.bincount(all_idx.flatten(), minlength=EXPERTS)
    assert counts.equal(mine(all_counts))
    assert all_counts[seed % EXPERTS] == 0, "one expert has no tokens"
    order = all_idx.flatten().argsort(stable=True)
    order = order.split(all_counts.view(model.ranks, -1).sum(1).tolist())[dist.get_rank()]
    assert hidden.equal(all_x[order // TOP_K])
    assert scores.equal(all_weights.flatten()[order])
    # Identity experts give x back, since the weights of a token sum to one.
    close(ops.combine(hidden * scores[:, None], handle, TOKENS), x)
    # With an eighth of the capacity some rows are dropped.
    few, _, _, other = ops.dispatch(*args, *where, True, 0.125)
    kept = min(len(few), len(hidden))
    assert few[:kept].equal(hidden[:kept])
    assert other != handle
    hidden[kept:] = 0
    close(ops.combine(few, other, TOKENS), ops.combine(hidden, handle, TOKENS))
    # Fakes have the shapes of real results where those do not depend on data.
    meta = [a.to("meta") for a in args]
    for options in [(True, 1.0), (True, 0.125), (True, 1.0, 24)]:
        results = four_operators(args, *where, *options), four_operators(meta, *where, *options)
        for real, fake in zip(*results, strict=True):
            assert (real.shape, real.dtype) == (fake.shape, fake.dtype)


def make(device):
    """The model. Eager is checked against float64 here, so compiled only has to match eager."""
    join(device)
    model = MoE().to(device)
    for seed in (0, 1):
        close(run(model, model, device, seed), dense(model, device, seed))
        if buffer is None:  # exact, which DeepEP in bfloat16 is not
            check_operators(model, device, seed)
    return model


def inputs(device, seed):
    """x, topk_idx, topk_weights. The seed decides the routing too; each rank has its own data."""
    join(device)
    x, topk_idx, topk_weights, _ = (t.to(device) for t in data(seed, dist.get_rank()))
    x = x if buffer is None else x.bfloat16()
    return x.requires_grad_(), topk_idx, topk_weights.requires_grad_()


def main():
    """Compile the model and compare it with eager, forward and backward, for two routings."""
    if "RANK" not in os.environ:  # start this file again, once for each rank
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nnodes=1"]
        command += ["--nproc-per-node=2", "--local-addr=127.0.0.1", __file__]
        sys.exit(subprocess.run(command, env={"OMP_NUM_THREADS": "1", **os.environ}).returncode)
    enough_gpus = torch.cuda.device_count() >= int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda" if enough_gpus else "cpu")
    model = make(device)
    compiled = torch.compile(model, backend="inductor", fullgraph=True)
    for seed in (0, 1):
        close(run(compiled, model, device, seed), run(model, model, device, seed))
    if dist.get_rank() == 0:
        where = f"{dist.get_world_size()} ranks over {dist.get_backend()}"
        print(f"passed: torch {torch.__version__} on {where}, forward and backward of two routings")


if __name__ == "__main__":
    main()
