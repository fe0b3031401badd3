"""On a CPU, torch takes a GPU's ways, in a process of its own: what is registered there stays."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tunekit.agent import SITE_FOLDER

WAYS = """
import json, sys
import torch
from torch import nn
from torch.nn import functional as F
from _tunekit_agent.stages.trace import cuda_memory
from _tunekit_agent.stages.trace.tracer import Tracer

def seen(run):
    with Tracer(torch, "cpu") as tracer:
        kept = run()
    facts = tracer.facts()
    return {"names": [op[0] for op in facts["ops"]], "sizes": facts["sizes"]}

def attend(shape, **more):
    torch.manual_seed(0)
    qkv = [torch.randn(shape, requires_grad=True) for _ in range(3)]
    return F.scaled_dot_product_attention(*qkv, **more)

def optimized(make):
    weights = [nn.Parameter(torch.ones(8)) for _ in range(2)]
    optimizer = make(weights)
    sum(weight.sum() for weight in weights).backward()
    optimizer.step()
    before = seen(optimizer.step)["names"]
    with cuda_memory.lists_of_parameters():
        within = seen(optimizer.step)["names"]
    return {"before": before, "within": within, "after": seen(optimizer.step)["names"]}

def clipped():
    weight = nn.Parameter(torch.ones(8))
    weight.grad = torch.ones(8)
    with cuda_memory.lists_of_parameters():
        return seen(lambda: nn.utils.clip_grad_norm_([weight], 1.0))["names"]

heads, hidden = (2, 4, 16, 8), torch.rand(16, 16) > 0.3
cases = {
    "plain": lambda: attend(heads),
    "causal": lambda: attend(heads, is_causal=True),
    "dropout": lambda: attend(heads, dropout_p=0.5),
    "hidden": lambda: attend(heads, attn_mask=hidden),
    "three": lambda: attend((2, 16, 8)),
}
reported = {}
before = {name: case().detach() for name, case in cases.items()}
rows, layer, norm = torch.randn(4, 8), nn.Linear(8, 8), nn.LayerNorm(8)
dropped = F.dropout(torch.ones(1000), 0.25)
cuda_memory.take(torch)
cuda_memory.take(torch)
reported["attention"] = {name: seen(case)["names"] for name, case in cases.items()}
reported["same"] = [name for name, case in cases.items() if torch.allclose(before[name], case(), atol=1e-5)]
grouped = [torch.randn(2, n, 16, 8, requires_grad=True) for n in (4, 2, 2)]
reported["grouped"] = list(F.scaled_dot_product_attention(*grouped, enable_gqa=True).shape)
attend(heads, dropout_p=0.5).sum().backward()
reported["dropout"] = seen(lambda: F.dropout(torch.ones(1000, requires_grad=True), 0.25))
reported["share"] = float((F.dropout(torch.ones(10000), 0.25) == 0).float().mean())
reported["no dropout"] = seen(lambda: F.dropout(rows, 0.25, training=False))["names"]
reported["evaluated"] = bool(torch.equal(F.dropout(rows, 0.5, training=False), rows))
with torch.autocast("cpu", torch.bfloat16):
    half = layer(rows)
    dtypes = {"linear": half, "layer_norm": norm(half), "softmax": half.softmax(-1)}
    dtypes |= {"exp": half.exp(), "sum": half.sum(), "pow": half.abs() ** 2, "relu": half.relu()}
    dtypes |= {"log_softmax": F.log_softmax(half, -1)}
    dtypes |= {"loss": F.cross_entropy(half, torch.zeros(4, dtype=torch.long))}
    reported["dtypes"] = {name: str(made.dtype)[6:] for name, made in dtypes.items()}
    norm(layer(rows)).sum().backward()
    reported["lstm"] = seen(lambda: nn.LSTM(8, 8)(layer(rows)[:, None])[0])["names"]
reported["float32"] = str(norm(rows).dtype)[6:]
reported["adamw"] = optimized(torch.optim.AdamW)
reported["clipped"] = clipped()
try:
    with cuda_memory.lists_of_parameters():
        raise KeyError
except KeyError:
    reported["after a fault"] = torch.utils._foreach_utils._get_foreach_kernels_supported_devices()
print(json.dumps(reported))
"""


@pytest.fixture(scope="module")
def reported() -> Any:
    code = f"import sys; sys.path.insert(0, {str(SITE_FOLDER)!r})\n{WAYS}"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ["plain", "causal", "dropout", "hidden"])
def test_attention_keeps_no_scores(reported: Any, name: str) -> None:
    names = reported["attention"][name]
    assert "_scaled_dot_product_flash_attention_for_cpu" in names
    assert not {"bmm", "_softmax", "_safe_softmax"} & set(names)


def test_attention_computes_the_same(reported: Any) -> None:
    assert reported["same"] == ["plain", "causal", "hidden", "three"], "all but what drops at random"


def test_attention_in_another_form_is_plain_products(reported: Any) -> None:
    assert "bmm" in reported["attention"]["three"]
    assert reported["grouped"] == [2, 4, 16, 8]


def test_dropout_keeps_a_byte_for_each_element(reported: Any) -> None:
    assert reported["dropout"]["names"] == ["ones", "native_dropout"]
    assert sorted(size for size in reported["dropout"]["sizes"] if size >= 0) == [1000, 4000, 4000]


def test_dropout_still_drops_its_share_and_only_in_training(reported: Any) -> None:
    assert 0.2 < reported["share"] < 0.3
    assert reported["no dropout"] == []
    assert reported["evaluated"]


def test_autocast_runs_in_float32_what_it_does_on_a_gpu(reported: Any) -> None:
    half = {"linear", "relu"}
    assert reported["dtypes"] == {
        name: "bfloat16" if name in half else "float32" for name in reported["dtypes"]
    }
    assert reported["float32"] == "float32"


def test_an_lstm_is_one_kernel_under_autocast(reported: Any) -> None:
    assert "mkldnn_rnn_layer" in reported["lstm"]
    assert "sigmoid" not in reported["lstm"]


def test_optimizers_walk_over_lists_within_and_not_after(reported: Any) -> None:
    adamw = reported["adamw"]
    assert any(name.startswith("_foreach") for name in adamw["within"])
    assert adamw["after"] == adamw["before"]
    assert not any(name.startswith("_foreach") for name in adamw["before"])


def test_gradients_are_clipped_as_a_list(reported: Any) -> None:
    assert "_foreach_norm" in reported["clipped"]


def test_torchs_own_choice_is_put_back_after_a_fault(reported: Any) -> None:
    assert "cpu" not in reported["after a fault"]
