"""The CPU threads of a training process are those that hold in it, whoever set them."""

from collections.abc import Iterator

import pytest
import torch
from _tunekit_agent.measure.record import thread_facts

from tunekit.records.measurement import THREAD_VARIABLES, Threads


@pytest.fixture
def own_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("own_threads")
def test_what_the_script_sets_is_told_beside_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.setenv("HF_TOKEN", "no business of ours")
    torch.set_num_threads(3)
    seen = Threads.model_validate(thread_facts(torch, list(THREAD_VARIABLES)))
    assert (seen.intra_op, seen.inter_op) == (3, torch.get_num_interop_threads())
    assert seen.variables == {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
