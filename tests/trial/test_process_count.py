"""Commands that are started with another number of processes, and those that are refused."""

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.errors import TargetError
from tunekit.trial.process_count import with_processes

LAUNCH = "-m torch.distributed.run --standalone --nproc-per-node 4"
PYTHON = {
    "python train.py --lr 0.1 -v": f"python {LAUNCH} -- train.py --lr 0.1 -v",
    "/env/bin/python3.11 -m pkg.train x=1": f"/env/bin/python3.11 {LAUNCH} -m -- pkg.train x=1",
    "python -mpkg": f"python {LAUNCH} -m -- pkg",
    "env X=1 python -m pkg --lr 1": f"env X=1 python {LAUNCH} -m -- pkg --lr 1",
    "nice -n 5 taskset 3 python train.py": f"nice -n 5 taskset 3 python {LAUNCH} -- train.py",
    "python -X dev -W error train.py": f"python {LAUNCH} --no-python -- python -X dev -W error train.py",
    "python -Om pkg": f"python {LAUNCH} --no-python -- python -O -m pkg",
    "python -c 'import train' -x": f"python {LAUNCH} --no-python -- python -c 'import train' -x",
    "uv run --extra gpu python train.py": f"uv run --extra gpu python {LAUNCH} -- train.py",
    "uv run --python python3.11 train.py -m": f"uv run --python python3.11 python {LAUNCH} -- train.py -m",
    "uv run -m pkg": f"uv run python {LAUNCH} -m -- pkg",
    "conda run -n env python train.py": f"conda run -n env python {LAUNCH} -- train.py",
    "env A=b poetry run torchrun --nproc-per-node 8 t.py": (
        "env A=b poetry run torchrun --nproc-per-node 4 t.py"
    ),
}
OWN_NUMBER = {
    "torchrun train.py": "torchrun --nproc-per-node 4 train.py",
    "torchrun --nproc_per_node=2 train.py --nproc_per_node 9": (
        "torchrun --nproc_per_node=4 train.py --nproc_per_node 9"
    ),
    "/bin/torchrun --standalone --nproc-per-node gpu -m pkg": (
        "/bin/torchrun --standalone --nproc-per-node 4 -m pkg"
    ),
    "torchrun --nnodes 2 --nproc 8 --rdzv-endpoint a:1 --rdzv_backend=c10d train.py": (
        "torchrun --nnodes 2 --nproc 4 --rdzv-endpoint a:1 --rdzv_backend=c10d train.py"
    ),
    "python -u -m torch.distributed.run --nproc-per-node 2 train.py": (
        "python -u -m torch.distributed.run --nproc-per-node 4 train.py"
    ),
    "python -m torch.distributed.launch --use_env train.py": (
        "python -m torch.distributed.launch --nproc-per-node 4 --use_env train.py"
    ),
    "accelerate launch --multi_gpu --num_processes 2 train.py": (
        "accelerate launch --multi_gpu --num_processes 4 train.py"
    ),
    "accelerate launch --config_file a.yaml train.py --num_processes 9": (
        "accelerate launch --num_processes 4 --config_file a.yaml train.py --num_processes 9"
    ),
    "accelerate-launch --num-processes=8 --num_machines 2 train.py": (
        "accelerate-launch --num-processes=4 --num_machines 2 train.py"
    ),
    "python -u -m accelerate.commands.accelerate_cli launch --num_processes 2 train.py": (
        "python -u -m accelerate.commands.accelerate_cli launch --num_processes 4 train.py"
    ),
    "python -m accelerate.commands.accelerate_cli launch train.py --num_processes 9": (
        "python -m accelerate.commands.accelerate_cli launch --num_processes 4 train.py --num_processes 9"
    ),
    "python -m accelerate.commands.launch --num_processes 2 -m pkg": (
        "python -m accelerate.commands.launch --num_processes 4 -m pkg"
    ),
}
PLACES = {
    "python fit.py --devices {processes} x": "python fit.py --devices 4 x",
    "torchrun --nproc-per-node={processes} fit.py trainer.devices={processes}": (
        "torchrun --nproc-per-node=4 fit.py trainer.devices=4"
    ),
    "bash -c 'mpirun -n {processes} python train.py'": "bash -c 'mpirun -n 4 python train.py'",
    "deepspeed --num_gpus {processes} train.py": "deepspeed --num_gpus 4 train.py",
}
REFUSED = {
    "bash train.sh": "{processes}",
    "bash -c 'python train.py'": "{processes}",
    "mpirun -n 2 python train.py": "mpirun -n {processes} python train.py",
    "deepspeed --num_gpus 2 train.py": "torchrun",
    "python -m deepspeed.launcher.runner train.py": "torchrun",
    "train-rows --lr 1": "python -m MODULE",
    "uv run train-rows": "{processes}",
    "env -S 'python train.py'": "{processes}",
    "python -": "python train.py",
    "python": "python train.py",
    "accelerate config": "{processes}",
    "python -m accelerate.commands.accelerate_cli test": "{processes}",
    "accelerate launch --cpu --num_processes 1 train.py": "torchrun train.py",
    "docker run image torchrun --nproc-per-node {processes} train.py": "put tunekit into the container",
}


@pytest.mark.parametrize(("typed", "started"), [*PYTHON.items(), *OWN_NUMBER.items(), *PLACES.items()])
def test_a_command_is_started_with_four_processes(typed: str, started: str) -> None:
    assert shlex.join(with_processes(shlex.split(typed), 4)) == shlex.join(shlex.split(started))


@pytest.mark.parametrize(("typed", "remedy"), REFUSED.items())
def test_what_has_no_known_number_is_refused_with_what_to_do(typed: str, remedy: str) -> None:
    with pytest.raises(TargetError) as refused:
        with_processes(shlex.split(typed), 4)
    assert remedy in str(refused.value)
    assert len(refused.value.lines) == 1


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


@pytest.mark.parametrize(
    "line", ["# mp.spawn(train)", "multiprocessing.get_context('spawn')", "mp.Process()"]
)
def test_a_script_that_only_names_spawn_is_started_by_torchrun(line: str) -> None:
    assert "--nproc-per-node" in with_processes(["python", "train.py"], 2, f"import torch\n{line}\n")


def test_a_number_below_one_is_refused() -> None:
    with pytest.raises(TargetError, match="at least 1 process, got 0"):
        with_processes(["python", "train.py"], 0)


def test_a_secret_of_the_command_is_not_told() -> None:
    with pytest.raises(TargetError) as refused:
        with_processes(["bash", "train.sh", "--api-key", "hunter2hunter2"], 2)
    assert "hunter2" not in str(refused.value)


words = st.text(st.characters(exclude_characters="\0{", exclude_categories=["Cs"]), min_size=1, max_size=8)
arguments = st.lists(words, max_size=6)
STARTS = st.sampled_from(
    [
        ["python", "train.py"],
        ["python", "-u", "-m", "pkg"],
        ["env", "A=1", "python", "-W", "error", "train.py"],
        ["uv", "run", "train.py"],
        ["torchrun", "--nnodes", "2", "--max-restarts=3", "train.py"],
        ["python", "-m", "torch.distributed.run", "-m", "pkg"],
        ["accelerate", "launch", "--mixed_precision", "bf16", "train.py"],
    ]
)


@given(STARTS, arguments, st.integers(2, 512), st.integers(2, 512))
def test_the_scripts_own_words_stay_and_the_last_number_holds(
    start: list[str], own: list[str], first: int, last: int
) -> None:
    command = [*start, *own]
    started = with_processes(command, first)
    assert started[len(started) - len(own) - 1 :] == (start[-1], *own)
    assert with_processes(started, last) == with_processes(command, last)


@given(arguments, st.integers(1, 8))
def test_any_command_is_started_or_refused(command: list[str], processes: int) -> None:
    try:
        started: Any = with_processes(command, processes)
    except TargetError as refused:
        assert "; " in str(refused)
    else:
        assert all(isinstance(word, str) for word in started)
