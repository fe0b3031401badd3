"""How far off are predicted training speeds, against published rates?

    python benchmarks/prediction_exam.py                   # judge speed_model.json on all rates
    python benchmarks/prediction_exam.py --leave-out gpu   # or model: fit without each, judge on it
    python benchmarks/prediction_exam.py --fit             # fit speed_model.json to the open rows only
    python benchmarks/prediction_exam.py --trace           # trace the models; needs timm and torchvision

published/training_rates.csv has the rates with their sources, of which a fifth is sealed: no fit sees it.
published/steps.json.gz has the ops of each model's step, traced by a trial of published_models.py on a CPU.
The predictions are the product's own. Rows whose step is not what was traced are left out: see _LEFT_OUT.
"""

import argparse
import csv
import gzip
import itertools
import json
import math
import shlex
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from real_trials_of import traced_fits  # noqa: E402

from tunekit.machine.profiles import load_profiles  # noqa: E402
from tunekit.predict import speed_model  # noqa: E402
from tunekit.predict.roofline import compute_rate, step_time  # noqa: E402
from tunekit.predict.speed_model import Arithmetic, Compute, SpeedModel, Traffic, published  # noqa: E402
from tunekit.predict.speed_ratio import speed_ratio  # noqa: E402
from tunekit.predict.step_traces import Unpredictable  # noqa: E402
from tunekit.records.codec import write_json  # noqa: E402
from tunekit.records.config import Precision  # noqa: E402
from tunekit.records.prediction import OpCost  # noqa: E402

RATES = Path(__file__).parent / "published/training_rates.csv"
STEPS = Path(__file__).parent / "published/steps.json.gz"
MODEL = ROOT / "tunekit/predict/speed_model.json"
_LEFT_OUT = {
    "DOUBT": "the source is in doubt (note)",
    "adaptdl": "adaptdl computes statistics of every gradient",
    "data binned": "sequences are shorter than stated",
    "adaptive softmax": "work depends on the words",
    "UNIT: tokens/s": "lengths vary",
    "CUDA graphs": "fused kernels and CUDA graphs",
    "audio samples/s": "WaveGlow is not in published_models.py",
    "U-Net depth 5": "torchgpipe's U-Net is not in published_models.py",
}
"""Reasons by a part of a row's note."""
_NO_OPTIMIZER = ("NO OPTIMIZER", "micro-batches", "accumulation to")
_ADAM = ("bert", "bart", "gnmt", "transformer_xl", "ncf")
_BATCHES = {"ncf": 1024, "nnunet_3d": 2, "gpt3_27": 2, "gpt3_xl": 2, "opt_13": 2}
"""Batch sizes of the traced script, where not 4."""
_PRECISIONS = {"tf32": Precision.TF32, "fp32": Precision.FP32, "bf16": Precision.BF16}
_MEDIAN_GOAL, _OUT_GOAL, _RATIO_GOAL = 0.12, 0.15, 0.12
_WIDTH = 0.9
"""Share of the residuals that a range covers."""


class Row(NamedTuple):
    """One published rate."""

    facts: dict[str, str]
    batch: int
    log_step_s: float

    @property
    def key(self) -> str:
        """The traced step that stands for it."""
        precision = {"tf32": "fp32", "bf16": "amp-fp16"}.get(self.facts["precision"], self.facts["precision"])
        return "|".join(
            (self.facts["model"], self.facts["sequence_or_image"], precision, self.facts["layout"])
        )

    @property
    def precision(self) -> Precision:
        """The precision of the training."""
        return _PRECISIONS.get(self.facts["precision"], Precision.FP16)

    @property
    def source(self) -> str:
        """The repository's owner."""
        return self.facts["source_url"].split("/")[3]


PROFILES = load_profiles()


def read_rows() -> tuple[list[Row], Counter[str]]:
    """Return the rows to judge, and how many were left out for which reason."""
    kept, left_out = [], Counter[str]()
    for facts in csv.DictReader(RATES.open()):
        batch = int(facts["batch_size"])
        row = Row(facts, batch, math.log(batch / float(facts["rate_samples_per_s"])))
        why = next((why for part, why in _LEFT_OUT.items() if part in facts["note"]), None)
        if why is None and facts["gpu"] not in PROFILES:
            why = "GPU without a profile"
        if why is None and not PROFILES[facts["gpu"]].runs_current_torch:
            why = "current torch has no build for the GPU"
        if why is None and row.key not in steps():
            why = "not traced"
        if why is None:
            kept.append(row)
        else:
            left_out[why] += 1
    return kept, left_out


# --- traced steps ----------------------------------------------------------------------------


@cache
def steps() -> dict[str, Any]:
    """Return the traced steps: two batch sizes, and ops as [name, dtype, count, flops and bytes at each]."""
    return json.loads(gzip.decompress(STEPS.read_bytes())) if STEPS.exists() else {}


@cache
def ops_of(key: str, batch: int, has_optimizer: bool) -> tuple[OpCost, ...]:
    """Return the ops of a step at a batch size, along a straight line as in vram.trace.ops_between."""
    (first, second), ops = steps()[key]["batches"], steps()[key]["ops"]
    share = (batch - first) / (second - first)
    return tuple(
        OpCost(name, dtype, max(0.0, a + share * (b - a)), max(0.0, c + share * (d - c)))
        for name, dtype, count, a, b, c, d in ops
        for _ in range(count)
        if has_optimizer or not name.startswith(("_foreach", "_fused"))
    )


def ops_of_row(row: Row) -> tuple[OpCost, ...]:
    """Return the ops of a row's step."""
    has_optimizer = not any(part in row.facts["note"] for part in _NO_OPTIMIZER)
    return ops_of(row.key, row.batch, has_optimizer)


def trace_all() -> None:
    """Trace every model of the rates, and keep the ops."""
    facts = [
        one for one in csv.DictReader(RATES.open()) if not any(part in one["note"] for part in _LEFT_OUT)
    ]
    found = {}
    for key in sorted({Row(one, 1, 0.0).key for one in facts}):
        model, size, precision, layout = key.split("|")
        name = model.split(" ")[0]
        words = [name, precision, "--size", size, "--layout", layout, "--batch", str(_BATCHES.get(name, 4))]
        words += ["--optimizer", "adam"] if name.startswith(_ADAM) else []
        try:
            with tempfile.TemporaryDirectory() as folder:
                fits = traced_fits(Path(__file__).with_name("published_models.py"), words, Path(folder))
        except Unpredictable as error:
            print(f"{key}: {error}", flush=True)
            continue
        first, second = next(iter(fits._pairs.values()))
        ops = Counter(
            (a.name, a.dtype, int(a.flops), int(b.flops), int(a.moved_bytes), int(b.moved_bytes))
            for a, b in zip(first.ops, second.ops, strict=True)
        )
        listed = [[name, dtype, count, *costs] for (name, dtype, *costs), count in ops.items()]
        found[key] = {"batches": [first.batch_size, second.batch_size], "ops": listed}
        print(f"{key}: {len(first.ops)} ops", flush=True)
    STEPS.write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))


# --- fit -------------------------------------------------------------------------------------

_KNOWN = {
    "compute": [
        [0.5, 0.5, 0.7],
        [0.15, 0.2, 0.3],
        [0.05, 0.1, 0.15],
        [0.6, 0.6, 0.75],
        [0.4, 0.5, 0.6],
        [0.35, 0.3, 0.4],
    ],
    "traffic": [0.5, 0.8, 0.8, 0.5, 0.7, 0.5, 0.8, 0.8],
    "times": [4e-6, 12e-6, 5e-3],
}
"""What is known without a fit: shares of peak by Compute and Arithmetic, shares of bandwidth by Traffic, and
the times of a kernel, of the host per op and per step, in seconds."""
_PRIOR = {name: torch.log(torch.tensor(known, dtype=torch.float64)) for name, known in _KNOWN.items()}
_DEVIATIONS = {
    "compute": torch.tensor([[0.4], [0.5], [0.5], [0.15], [0.2], [0.4]]),
    "traffic": 0.4,
    "times": 0.6,
    "gpu": 0.08,
    "capability": 0.1,
    "source": 0.1,
}
"""Standard deviation of the logarithm of a fitted figure around what is known; matmuls are known best."""
_NOISE = 0.12
_COMPUTE, _TRAFFIC, _ARITHMETIC = list(Compute), list(Traffic), list(Arithmetic)


class Table:
    """Rows as arrays for the fit; flops_s and bytes_s are seconds at full peak rate and bandwidth."""

    def __init__(self, rows: Sequence[Row]) -> None:
        places: list[tuple[int, int, int, int]] = []
        ideals: list[tuple[float, float]] = []
        self.rows, self.group, self.gpus = rows, [], sorted({row.facts["gpu"] for row in rows})
        self.capabilities = sorted({_capability(gpu) for gpu in self.gpus})
        self.sources = sorted({row.source for row in rows})
        for place, row in enumerate(rows):
            gpu, of_step = PROFILES[row.facts["gpu"]], Counter[Arithmetic]()
            for op in ops_of_row(row):
                unit = speed_model.arithmetic_of(op, gpu, row.precision is Precision.TF32)
                peak, bandwidth = speed_model.peak_tflops(gpu, unit), gpu.bandwidth_gb_per_s
                assert peak is not None
                assert bandwidth is not None
                of_step[unit] += int(op.flops)
                kind, traffic = speed_model.compute_kind(op.name), speed_model.traffic_kind(op.name)
                places.append((place, _COMPUTE.index(kind), _ARITHMETIC.index(unit), _TRAFFIC.index(traffic)))
                ideals.append((op.flops / (peak * 1e12), op.moved_bytes / (bandwidth * 1e9)))
            self.group.append(_ARITHMETIC.index(max(of_step, key=lambda one: of_step[one])))
        unique, counts = np.unique(
            np.hstack([np.array(places), np.array(ideals)]), axis=0, return_counts=True
        )
        whole = torch.tensor(unique[:, :4], dtype=torch.long)
        self.row, self.compute, self.unit, self.traffic = whole.T
        self.flops_s, self.bytes_s = torch.tensor(unique[:, 4:]).T
        self.counts = torch.tensor(counts, dtype=torch.float64)
        self.ops = torch.zeros(len(rows), dtype=torch.float64).index_add(0, self.row, self.counts)
        self.log_step_s = torch.tensor([row.log_step_s for row in rows], dtype=torch.float64)
        self.gpu = torch.tensor([self.gpus.index(row.facts["gpu"]) for row in rows])
        self.capability = torch.tensor(
            [self.capabilities.index(_capability(row.facts["gpu"])) for row in rows]
        )
        self.source = torch.tensor([self.sources.index(row.source) for row in rows])

    def predicted(self, fitted: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the logarithm of each step's time in seconds, by the rules of roofline.step_time."""
        arithmetic_s = self.flops_s / torch.exp(fitted["compute"][self.compute, self.unit])
        traffic_s = self.bytes_s / torch.exp(fitted["traffic"][self.traffic])
        kernel_s, host_op_s, host_step_s = torch.exp(fitted["times"])
        each = (torch.maximum(arithmetic_s, traffic_s) + kernel_s) * self.counts
        gpu_s = torch.zeros(len(self.rows), dtype=torch.float64).index_add(0, self.row, each)
        factor = fitted["gpu"][self.gpu, self.group] + fitted["capability"][self.capability, self.group]
        both = torch.stack([torch.log(gpu_s) - factor, torch.log(host_op_s * self.ops + host_step_s)])
        return torch.logsumexp(8 * both, 0) / 8


def _capability(gpu: str) -> str:
    return PROFILES[gpu].compute_capability or PROFILES[gpu].architecture


def fit(rows: Sequence[Row]) -> SpeedModel:
    """Return the figures that fit the rows best, near to what is known without them.

    Sources differ in software and hosts: each has a factor of its own, whose mean is kept.
    """
    table = Table(rows)
    fitted = {name: known.clone() for name, known in _PRIOR.items()}
    fitted |= {
        "gpu": torch.zeros(len(table.gpus), len(_ARITHMETIC), dtype=torch.float64),
        "capability": torch.zeros(len(table.capabilities), len(_ARITHMETIC), dtype=torch.float64),
        "source": torch.zeros(len(table.sources), dtype=torch.float64),
    }
    for value in fitted.values():
        value.requires_grad_()
    search = torch.optim.LBFGS(
        [*fitted.values()], max_iter=120, line_search_fn="strong_wolfe", history_size=20
    )

    def loss() -> torch.Tensor:
        search.zero_grad()
        off = (table.predicted(fitted) - fitted["source"][table.source] - table.log_step_s) / _NOISE
        total = 2 * torch.log1p(off**2 / 4).sum()  # Student's t: outliers count little
        for name, value in fitted.items():
            total = total + 0.5 * (((value - _PRIOR.get(name, 0)) / _DEVIATIONS[name]) ** 2).sum()
        total.backward()
        return total

    search.step(loss)
    found = {name: value.detach().numpy() for name, value in fitted.items()}
    usual = float(found["source"][table.source].mean())
    return _speed_model(table, found, usual)


def _rounded(logs: Iterable[float]) -> list[float]:
    return [float(f"{math.exp(one):.4g}") for one in logs]


def _by_unit(logs: Iterable[float]) -> dict[Arithmetic, float]:
    return dict(zip(_ARITHMETIC, _rounded(logs), strict=True))


def _speed_model(table: Table, found: dict[str, Any], usual: float) -> SpeedModel:
    kernel_s, host_op_s, host_step_s = _rounded(found["times"])
    factors = {
        one: _by_unit(found["capability"][place] + usual) for place, one in enumerate(table.capabilities)
    }
    for place, gpu in enumerate(table.gpus):
        whole = found["gpu"][place] + found["capability"][table.capabilities.index(_capability(gpu))] + usual
        factors[gpu] = _by_unit(whole)
    return SpeedModel(
        source=f"{len(table.rows)} published training rates, fitted {datetime.now(UTC):%Y-%m-%d}",
        compute_shares={kind: _by_unit(found["compute"][place]) for place, kind in enumerate(_COMPUTE)},
        bandwidth_shares=dict(zip(_TRAFFIC, _rounded(found["traffic"]), strict=True)),
        kernel_s=kernel_s,
        host_op_s=host_op_s,
        host_step_s=host_step_s,
        gpu_factors=factors,
        ranges=dict.fromkeys([*Compute, "memory", "host"], 1.3),
        unknown_gpu_range=1.3,
        ratio_range=1.3,
        unknown_gpu_ratio_range=1.3,
        **ratio_figures(table.rows),
    )


def ratio_figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the speed of a mix of models by peak, bandwidth and GPU: least squares over models and GPUs."""
    groups = [
        sorted({_work(row) for row in rows}),
        [(unit, name) for unit in _ARITHMETIC for name in ("peak", "bandwidth")],
        sorted({(_unit(row), _capability(row.facts["gpu"])) for row in rows}),
        sorted({(_unit(row), row.facts["gpu"]) for row in rows}),
    ]
    place = {name: at for at, name in enumerate(itertools.chain(*groups))}
    lines, wanted = [], []
    for row in rows:
        gpu, unit, line = PROFILES[row.facts["gpu"]], _unit(row), np.zeros(len(place))
        peak, bandwidth = speed_model.peak_tflops(gpu, unit), gpu.bandwidth_gb_per_s
        assert peak is not None
        assert bandwidth is not None
        line[[place[_work(row)], place[unit, _capability(gpu.id)], place[unit, gpu.id]]] = 1
        line[[place[unit, "peak"], place[unit, "bandwidth"]]] = math.log(peak), math.log(bandwidth)
        lines.append(line)
        wanted.append(math.log(row.batch) - row.log_step_s)
    for name, at in place.items():  # half of the gain of each, and no factor, unless the rows say otherwise
        if name in groups[0]:
            continue
        line = np.zeros(len(place))
        is_exponent = name[1] in ("peak", "bandwidth")
        line[at] = 1.0 if is_exponent else 1.5
        lines.append(line)
        wanted.append(0.5 if is_exponent else 0.0)
    found = np.linalg.lstsq(np.array(lines), np.array(wanted), rcond=None)[0]
    value = {name: float(found[at]) for name, at in place.items()}
    names = {name for _, name in [*groups[2], *groups[3]]}
    parts = {name: {name, _capability(name)} if name in PROFILES else {name} for name in names}
    return {
        "ratio_offsets": {unit: _offset(value, groups[0], unit) for unit in _ARITHMETIC},
        "ratio_exponents": {unit: (value[unit, "peak"], value[unit, "bandwidth"]) for unit in _ARITHMETIC},
        "ratio_factors": {
            name: {
                unit: math.exp(sum(value.get((unit, part), 0.0) for part in parts[name]))
                for unit in _ARITHMETIC
            }
            for name in sorted(names)
        },
    }


def _work(row: Row) -> tuple[Arithmetic, str]:
    return _unit(row), f"{row.key.replace('amp-fp16', 'fp32')} {row.source}"


def _offset(value: dict[Any, float], works: list[tuple[Arithmetic, str]], unit: Arithmetic) -> float:
    """Return the mean of what a work's speed on some units exceeds that in 16 bit by, as a logarithm."""
    both = [name for of, name in works if of is unit and (Arithmetic.HALF, name) in value]
    return float(np.mean([value[unit, name] - value[Arithmetic.HALF, name] for name in both]))


def _unit(row: Row) -> Arithmetic:
    return {Precision.TF32: Arithmetic.TF32, Precision.FP32: Arithmetic.FP32}.get(
        row.precision, Arithmetic.HALF
    )


# --- judge -----------------------------------------------------------------------------------


class Judged(NamedTuple):
    """One prediction; `log_error` is of the rate."""

    row: Row
    log_error: float
    range: float
    largest: str


def judge(rows: Sequence[Row], model: SpeedModel) -> list[Judged]:
    """Predict each row by the product's code."""
    judged = []
    for row in rows:
        gpu, uses_tf32, ops = PROFILES[row.facts["gpu"]], row.precision is Precision.TF32, ops_of_row(row)
        rate, time = (
            compute_rate(ops, row.batch, gpu, uses_tf32, model),
            step_time(ops, gpu, uses_tf32, model),
        )
        assert rate is not None
        assert time is not None
        off = math.log(rate.value / row.batch) + row.log_step_s
        judged.append(Judged(row, off, rate.high / rate.value, time.largest))
    return judged


def judge_ratios(rows: Sequence[Row], model: SpeedModel, only: Callable[[Row], bool]) -> list[Judged]:
    """Predict every ordered pair of GPUs that one source trained the same model on."""
    groups = defaultdict(list)
    for row in rows:
        groups[row.key, row.precision, row.source].append(row)
    judged = []
    for group in groups.values():
        for one, other in itertools.permutations(group, 2):
            if one.facts["gpu"] == other.facts["gpu"] or not (only(one) or only(other)):
                continue
            before, after = PROFILES[one.facts["gpu"]], PROFILES[other.facts["gpu"]]
            ratio = speed_ratio(before, after, one.precision, model).ratio
            if ratio is not None:
                log_rates = [math.log(row.batch) - row.log_step_s for row in (one, other)]
                off = math.log(ratio.value) - (log_rates[1] - log_rates[0])
                judged.append(Judged(other, off, ratio.high / ratio.value, "ratio"))
    return judged


def left_out(rows: Sequence[Row], by: str) -> tuple[list[Judged], list[Judged]]:
    """Judge the rows and ratios of each GPU or model by a fit without it."""
    judged, ratios = [], []
    for name in sorted({row.facts[by] for row in rows}):
        model = fit([row for row in rows if row.facts[by] != name])
        judged += judge([row for row in rows if row.facts[by] == name], model)
        ratios += judge_ratios(rows, model, lambda row, name=name: row.facts[by] == name)
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return judged, ratios


def with_ranges(model: SpeedModel, rows: Sequence[Row]) -> SpeedModel:
    """Return the model with ranges as wide as the errors on models and GPUs that a fit did not see."""
    (by_model, model_ratios), (by_gpu, gpu_ratios) = left_out(rows, "model"), left_out(rows, "gpu")
    kinds = {kind: [one for one in by_model if one.largest == kind] for kind in [*Compute, "memory", "host"]}
    return model.changed(
        ranges={kind: _width(some if len(some) >= 10 else by_model) for kind, some in kinds.items()},
        unknown_gpu_range=_width(by_gpu),
        ratio_range=_width(model_ratios),
        unknown_gpu_ratio_range=_width(gpu_ratios),
    )


def _width(judged: Sequence[Judged]) -> float:
    return float(f"{math.exp(np.quantile([abs(one.log_error) for one in judged], _WIDTH)):.3g}")


def print_errors(title: str, judged: Sequence[Judged], median_goal: float | None = None) -> None:
    """Print the errors of predictions, by groups."""
    print(
        f"\n### {title}\n\n| rows | n | median error | mean | p90 | within x1.3 | inside the range | bias |"
    )
    print("|---|---|---|---|---|---|---|---|")
    groups = {"all": list(judged)}
    if judged[0].largest != "ratio":
        for name in ("model_class", "precision", "gpu"):
            for one in sorted({one.row.facts[name] for one in judged}):
                groups[one] = [some for some in judged if some.row.facts[name] == one]
        for one in sorted({one.largest for one in judged}):
            groups[f"bound by {one}"] = [some for some in judged if some.largest == one]
    for name, some in groups.items():
        logs = np.array([one.log_error for one in some])
        errors, ranges = np.abs(np.expm1(logs)), np.log([one.range for one in some])
        near, inside = (np.mean(np.abs(logs) <= most + 1e-9) for most in (math.log(1.3), ranges))
        print(
            f"| {name} | {len(some)} | {np.median(errors):.1%} | {errors.mean():.1%} "
            f"| {np.quantile(errors, 0.9):.0%} | {near:.0%} | {inside:.0%} | {np.exp(np.median(logs)):.2f} |"
        )
    if median_goal is not None:
        median = np.median([abs(math.expm1(one.log_error)) for one in judged])
        print(f"\ngoal, median at most {median_goal:.0%}: {'met' if median <= median_goal else 'missed'}")


def main() -> None:
    """Judge, or fit, or trace."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--leave-out", choices=["gpu", "model"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.trace:
        trace_all()
        return
    rows, reasons = read_rows()
    open_rows = [row for row in rows if row.facts["sealed"] == "0"]
    print(f"`{shlex.join(['python', 'benchmarks/prediction_exam.py', *sys.argv[1:]])}`\n")
    print(f"{len(rows)} rows of {len({row.facts['gpu'] for row in rows})} GPUs; left out: ", end="")
    print("; ".join(f"{count}: {why}" for why, count in reasons.most_common()))
    if options.fit:
        write_json(MODEL, with_ranges(fit(open_rows), open_rows))
    if options.leave_out:
        judged, ratios = left_out(open_rows, options.leave_out)
        print_errors(f"open rows, without their {options.leave_out}", judged, _OUT_GOAL)
        print_errors(f"ratios of two GPUs, without the {options.leave_out}", ratios, _RATIO_GOAL)
        return
    sealed = [row for row in rows if row.facts["sealed"] == "1"]
    model = published()
    print_errors("open rows, fitted to", judge(open_rows, model), _MEDIAN_GOAL)
    print_errors("sealed rows", judge(sealed, model), _MEDIAN_GOAL)
    neusight = [row for row in rows if "sitar-lab" in row.source]
    print_errors("NeuSight's training rows", judge(neusight, model))
    print_errors(
        "ratios of two GPUs, one of them sealed", judge_ratios(rows, model, sealed.__contains__), _RATIO_GOAL
    )


if __name__ == "__main__":
    main()
