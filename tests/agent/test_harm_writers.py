"""What trainings write with works under the guard as without: no old byte changes, nothing is refused."""

import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from harm_writers import WRITERS
from probing import Probe, picture, probing


@pytest.fixture(scope="module", params=["imported before", "imported after"])
def probe(request: pytest.FixtureRequest) -> Iterator[Probe]:
    preloaded = ("harm_writers",) if request.param == "imported before" else ()
    with probing(packages=sysconfig.get_path("purelib"), preloaded=preloaded) as started:
        yield started


@pytest.mark.parametrize("writer", WRITERS)
def test_a_writer_does_what_it_does_elsewhere(writer: str, probe: Probe, tmp_path: Path) -> None:
    plain, guarded, diverted, fresh = (tmp_path / name for name in ("plain", "guarded", "diverted", "fresh"))
    for root in (plain, fresh):
        root.mkdir()
    first = probe.run(plain, None, [("writer", writer)])
    for root in (guarded, diverted):
        shutil.copytree(plain, root, symlinks=True)
    old = {root: picture(root) for root in (guarded, diverted)}
    again = probe.run(plain, None, [("writer", writer)])
    trials = {root: root.with_suffix(".trial") for root in (guarded, diverted, fresh)}
    for trial in trials.values():
        trial.mkdir()
    assert probe.run(guarded, trials[guarded], [("writer", writer)]) == again
    assert {name: seen for name, seen in picture(guarded).items() if name in old[guarded]} == old[guarded]
    assert probe.run(diverted, trials[diverted], [("writer", writer)], divert_new=True) == again
    assert picture(diverted) == old[diverted]
    assert probe.run(fresh, trials[fresh], [("writer", writer)], divert_new=True) == first
    assert picture(fresh) == {}
    assert "OSError" not in str(first)
