"""Commands that are started with another number of processes, and those that are refused."""

import shlex
from collections.abc import Callable

import pytest

from tunekit.errors import TargetError
from tunekit.trial.process_count import with_processes

COMMANDS = """\
python train.py --lr 0.1 -v
/env/bin/python3.11 -m pkg.train x=1
python -mpkg
env X=1 python -m pkg --lr 1
nice -n 5 taskset 3 python train.py
python -X dev -W error train.py
python -Om pkg
python -c 'import train' -x
uv run --extra gpu python train.py
uv run --python python3.11 train.py -m
uv run -m pkg
conda run -n env python train.py
env A=b poetry run torchrun --nproc-per-node 8 t.py
torchrun train.py
torchrun --nproc_per_node=2 train.py --nproc_per_node 9
/bin/torchrun --standalone --nproc-per-node gpu -m pkg
torchrun --nnodes 2 --nproc 8 --rdzv-endpoint a:1 --rdzv_backend=c10d train.py
python -u -m torch.distributed.run --nproc-per-node 2 train.py
python -m torch.distributed.launch --use_env train.py
accelerate launch --multi_gpu --num_processes 2 train.py
accelerate launch --config_file a.yaml train.py --num_processes 9
accelerate-launch --num-processes=8 --num_machines 2 train.py
python -u -m accelerate.commands.accelerate_cli launch --num_processes 2 train.py
python -m accelerate.commands.accelerate_cli launch train.py --num_processes 9
python -m accelerate.commands.launch --num_processes 2 -m pkg
python fit.py --devices {processes} x
torchrun --nproc-per-node={processes} fit.py trainer.devices={processes}
bash -c 'mpirun -n {processes} python train.py'
deepspeed --num_gpus {processes} train.py
bash train.sh
bash -c 'python train.py'
mpirun -n 2 python train.py
deepspeed --num_gpus 2 train.py
python -m deepspeed.launcher.runner train.py
train-rows --lr 1
uv run train-rows
env -S 'python train.py'
python -
python
accelerate config
python -m accelerate.commands.accelerate_cli test
accelerate launch --cpu --num_processes 1 train.py
docker run image torchrun --nproc-per-node {processes} train.py
"""


def test_commands_are_started_with_four_processes_or_refused_with_what_to_do(
    golden: Callable[[str], object],
) -> None:
    told = []
    for typed in COMMANDS.splitlines():
        try:
            told.append(f"{typed}\n    {shlex.join(with_processes(shlex.split(typed), 4))}\n")
        except TargetError as refused:
            told.append(f"{typed}\n    refused: {refused}\n")
    assert "".join(told) == golden("four-processes.txt")


@pytest.mark.parametrize(
    ("typed", "started"),
    [
        ("python train.py", "python -m torch.distributed.run --standalone --nproc-per-node 1 -- train.py"),
        (
            "accelerate launch --multi_gpu --num_processes 2 train.py",
            "accelerate launch --num_processes 1 train.py",
        ),
        ("accelerate launch --cpu train.py", "accelerate launch --num_processes 1 --cpu train.py"),
    ],
)
def test_one_process_is_started_by_the_same_launcher(typed: str, started: str) -> None:
    assert shlex.join(with_processes(shlex.split(typed), 1)) == started


@pytest.mark.parametrize(
    "line",
    [
        "    mp.spawn(train, args=(2,), nprocs=2)",
        "torch.multiprocessing.spawn(train, nprocs=2)",
        "from torch.multiprocessing import set_start_method, spawn",
        "mp.start_processes(train)",
        "notebook_launcher(train, num_processes=2)",
    ],
)
def test_a_script_that_starts_its_processes_needs_the_place_of_its_number(line: str) -> None:
    text = f"import torch\n{line}\n"
    command = ["python", "spawns.py"]
    with pytest.raises(TargetError, match=r"python spawns.py --world-size \{processes\}"):
        with_processes(command, 2, text)
    placed = (*command, "--world-size", "{processes}")
    assert with_processes(placed, 2, text) == (*command, "--world-size", "2")
    assert with_processes(["torchrun", "spawns.py"], 2, text)[-1] == "spawns.py"
