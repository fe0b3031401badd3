"""A model and its loss as torch.compile would have them, on fake cuda tensors.

Compiling takes both passes as one graph and chooses, by a minimum cut through it, what the forward pass keeps
and what the backward pass makes again. The same cut is made here, over the same decompositions. Then
everything that can be fused is taken to be fused: of a chain of pointwise operations and reductions only what
something else reads is allocated, and what it reads lives until then.

A bound, and no estimate: a compiler that fuses less allocates more. What it allocates for itself (tuning,
CUDA graphs) is left out.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.fx import GraphModule, Interpreter, Node

Unseen = Callable[[], AbstractContextManager[None]]


class Cut(nn.Module):
    """What gives the loss of a batch, cut when it is first called, for the shapes of that call.

    Torch raises at that call where it is no single graph: one whose way depends on values, or that
    checkpoints with use_reentrant=True.

    Args:
        of_batch: gives the loss of inputs and targets; on fake tensors.
        unseen: enters a context in which nothing is allocated.
    """

    def __init__(self, of_batch: nn.Module, unseen: Unseen) -> None:
        # Imported where they are needed: together they take a second.
        import torch._inductor.lowering  # noqa: F401, PLC0415 - pools ask for it
        from torch._functorch.aot_autograd import aot_function  # noqa: PLC0415
        from torch._functorch.partitioners import (  # noqa: PLC0415
            min_cut_rematerialization_partition,
        )
        from torch._inductor.decomposition import select_decomp_table  # noqa: PLC0415

        super().__init__()
        self._held = {**dict(of_batch.named_parameters()), **dict(of_batch.named_buffers())}
        self._run = aot_function(
            partial(functional_call, of_batch),
            fw_compiler=partial(_fused, unseen),
            partition_fn=partial(min_cut_rematerialization_partition, compiler="inductor"),
            decompositions=select_decomp_table(),
            num_params_buffers=len(self._held),
        )

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> Any:
        """Return the loss."""
        return self._run(self._held, (inputs, targets))


def _fused(unseen: Unseen, graph: GraphModule, inputs: Any) -> Callable[[list[Any]], Any]:
    """Return what runs a graph and drops each tensor after its last use, its arguments too."""
    runner = _Fused(graph, unseen)

    def run(arguments: list[torch.Tensor]) -> Any:
        made = runner.boxed_run(arguments)
        runner.env = {}  # else it keeps what it gave
        return made

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


class _Fused(Interpreter):
    """Runs a graph and allocates what fused kernels write."""

    def __init__(self, graph: GraphModule, unseen: Unseen) -> None:
        from torch._functorch.partitioners import get_default_op_list  # noqa: PLC0415

        super().__init__(graph)
        self._unseen = unseen
        kinds = get_default_op_list()
        nodes = list(graph.graph.nodes)
        calls = [node for node in nodes if node.op == "call_function"]
        self._views = {node for node in calls if kinds.is_view(node) or "getitem" in str(node.target)}
        self._fusible = {node for node in calls if kinds.is_fusible(node)} - self._views
        # The compiler makes a comparison of a scatter into a constant: the gradient of a loss over classes.
        self._fusible |= {node for node in calls if node.target is torch.ops.aten.scatter.value}
        self._written: set[Node] = set()
        for node in reversed(nodes):
            if any(self._reads(user) for user in node.users):
                self._written.add(node)
        self.user_to_last_uses = self._last_uses(nodes)

    def run_node(self, n: Node) -> Any:
        """Return what a node gives; allocated only where a kernel writes it."""
        is_written = n in self._written
        if n not in self._fusible and (is_written or n not in self._views):
            return super().run_node(n)
        with self._unseen():
            made = super().run_node(n)
        return torch.utils._pytree.tree_map(_allocated, made) if is_written else made

    def _reads(self, user: Node) -> bool:
        """Return whether a user needs what it takes in memory."""
        if user in self._views:
            return user in self._written
        return user not in self._fusible

    def _last_uses(self, nodes: list[Node]) -> dict[Node, list[Node]]:
        """Return which tensors go after each node: those of a fused chain where it is written."""
        place = {node: index for index, node in enumerate(nodes)}
        last: dict[Node, int] = {}
        for node in reversed(nodes):
            ends = [
                place[user] if user in self._written else last.get(user, place[user]) for user in node.users
            ]
            last[node] = max([place[node], *ends])
        uses: dict[Node, list[Node]] = {}
        for node in nodes[:-1]:  # the last is what the graph gives
            uses.setdefault(nodes[last[node]], []).append(node)
        return uses


def _allocated(made: Any) -> Any:
    """Return a new tensor like one."""
    if not isinstance(made, torch.Tensor):
        return made
    return torch.empty_strided(made.shape, made.stride(), dtype=made.dtype, device=made.device)
