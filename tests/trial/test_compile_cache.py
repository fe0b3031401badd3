"""The cache that trials compile into: their own, and warm where the user's is."""

import getpass
import os
from pathlib import Path

import pytest

from tunekit.trial import launch
from tunekit.trial.launch import compile_cache


@pytest.fixture
def trials(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "trials"
    folder.mkdir(parents=True)
    return folder


def written(path: Path, text: str, age_s: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (10**9 - age_s, 10**9 - age_s))
    return path


def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_what_the_user_has_compiled_is_there_wherever_torch_and_triton_keep_it(
    trials: Path, tmp_path: Path
) -> None:
    inductor = tmp_path / "tmp" / f"torchinductor_{getpass.getuser()}"
    written(inductor / "fxgraph/ab/graph", "a graph")
    written(inductor / "locks/ab.lock", "")
    written(inductor / "triton/0/HASH/kernel.cubin", "of torch's")
    written(tmp_path / "home/.triton/cache/OTHER/kernel.cubin", "of the script's")
    cache = compile_cache(trials, {"TMPDIR": str(tmp_path / "tmp"), "HOME": str(tmp_path / "home")})
    assert texts(cache) == {
        "inductor/fxgraph/ab/graph": "a graph",
        "triton/HASH/kernel.cubin": "of torch's",
        "triton/OTHER/kernel.cubin": "of the script's",
    }


def test_folders_that_the_user_names_are_read_instead(trials: Path, tmp_path: Path) -> None:
    written(tmp_path / "home/.triton/cache/OTHER/kernel.cubin", "not this one")
    written(tmp_path / "mine/graph", "a graph")
    written(tmp_path / "kernels/HASH/kernel.cubin", "a kernel")
    variables = {"TORCHINDUCTOR_CACHE_DIR": "mine", "TRITON_CACHE_DIR": "kernels"}
    named = {variable: str(tmp_path / name) for variable, name in variables.items()}
    cache = compile_cache(trials, {**named, "HOME": str(tmp_path / "home")})
    assert texts(cache) == {"inductor/graph": "a graph", "triton/HASH/kernel.cubin": "a kernel"}


def test_a_run_has_one_cache_and_the_users_own_stays_as_it_is(trials: Path, tmp_path: Path) -> None:
    own = written(tmp_path / "mine/graph", "a graph")
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(own.parent), "HOME": str(tmp_path)}
    (compile_cache(trials, environment) / "inductor/graph").write_text("changed by a trial")
    written(own.parent / "later", "compiled meanwhile")
    assert texts(compile_cache(trials, environment)) == {"inductor/graph": "changed by a trial"}
    assert own.read_text() == "a graph"


def test_of_much_the_newest_is_taken(trials: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_MOST_CACHED_BYTES", 10)
    for age_s, name in enumerate(("newest", "recent", "oldest")):
        written(tmp_path / "mine" / name, "12345", age_s)
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "mine"), "HOME": str(tmp_path)}
    assert set(texts(compile_cache(trials, environment))) == {"inductor/newest", "inductor/recent"}
