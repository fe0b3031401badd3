"""Does a step traced in a script's own loop, on a CPU, take what it takes on fake tensors of a GPU?

    python benchmarks/vram_loop.py [--resnet50]

Runs a script with a CNN and one with a small GPT, AdamW each, as baselines that trace their own steps at
batch sizes 2 and 4; the same models are traced on fake cuda tensors, whose peaks were held against a GPU's
(vram_accuracy.py). Both are taken to other batch sizes, in float32 and under bf16 autocast. With --resnet50,
ResNet-50 on images of 224 x 224 too. Goal: within 2% of each allocated peak.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from real_trials_of import measured, run_script  # noqa: E402

from tunekit.memory.vram.predict import MemoryPrediction  # noqa: E402
from tunekit.records.details import Detail  # noqa: E402
from tunekit.records.step_trace import PURPOSES, Purpose, StepTrace  # noqa: E402
from tunekit.units import MIB  # noqa: E402

SCRIPT = ROOT / "tests" / "zoo" / "known_memory.py"
_BLAS_WORKSPACE_BYTES = 8_519_680
"""As in tunekit.memory.vram.fake.step, whose import takes torch."""
_GOAL, _SIZES = 0.02, (32, 128)


def main() -> int:
    """Trace both ways, print the table, return whether the goal is missed."""
    models = [("cnn", 32), ("gpt", 32)]
    if "--resnet50" in sys.argv[1:]:
        models.append(("vram_models:resnet50", 224))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH", "")])
    worst = 0.0
    print(f"{'model':22}{'precision':>10}{'batch':>7}{'loop MiB':>11}{'fake MiB':>11}{'off':>8}{'flops':>8}")
    for name, image in models:
        fake = on_fake_tensors(name, image)
        with tempfile.TemporaryDirectory() as folder:
            traces = in_the_loop(name, image, Path(folder))
        for precision, (first, second) in traces.items():
            prediction = MemoryPrediction.of(first, second)
            flops = sum(op.flops for op in second.ops) / second.batch_size / fake[precision]["flops"]
            for size in _SIZES:
                peak, expected = prediction.peak(size).allocated_bytes, fake[precision]["peaks"][str(size)]
                off = peak / expected - 1
                worst = max(worst, abs(off))
                shown = f"{peak / MIB:11.1f}{expected / MIB:11.1f}{off:+8.2%}{flops:8.3f}"
                print(f"{name:22}{precision:>10}{size:7}{shown}")
    print(f"\nfurthest off: {worst:.2%}; goal: {_GOAL:.0%} (all peaks predicted)")
    return int(worst > _GOAL)


def on_fake_tensors(name: str, image: int) -> Any:
    """Return what vram_loop_fake.py tells."""
    words = [name, str(image), *map(str, _SIZES)]
    program = [sys.executable, str(ROOT / "benchmarks" / "vram_loop_fake.py"), *words]
    return json.loads(subprocess.run(program, capture_output=True, text=True, check=True).stdout)


def in_the_loop(name: str, image: int, folder: Path) -> dict[str, list[StepTrace]]:
    """Return the traces of a real trial by precision, with the workspaces that a GPU's libraries take."""
    record = run_script(SCRIPT, [name, "--image", str(image)], folder, 0.3, (Detail.TRACE,))
    details = measured(record).details
    if details is None or details.trace is None or not details.trace.steps:
        sys.exit(f"no steps were traced: {details}")
    traces: dict[str, list[StepTrace]] = {}
    for step in details.trace.steps:
        trace = StepTrace.model_validate_json((folder / "0000" / step.file).read_text())
        traces.setdefault(step.precision or "own", []).append(with_workspaces(trace))
    return traces


def with_workspaces(trace: StepTrace) -> StepTrace:
    """Return a trace that begins with cuBLAS's workspaces of two threads."""
    facts = trace.model_dump()
    facts["blocks"] = (0, 1, *(block + 2 for block in trace.blocks))
    facts["sizes"] = (_BLAS_WORKSPACE_BYTES, _BLAS_WORKSPACE_BYTES, *trace.sizes)
    facts["purposes"] = (PURPOSES.index(Purpose.WORKSPACE),) * 2 + trace.purposes
    return StepTrace.model_validate(facts)


if __name__ == "__main__":
    sys.exit(main())
