"""Real trials that run beside each other before the tests of a module look at them."""

from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from real_trials import Plan, Ran, end_with_parent, run_plan

Started = dict[Plan, Future[Ran]]


@pytest.fixture(scope="session")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Processes that run trials: most of them wait for a limit or start an interpreter."""
    pool = ProcessPoolExecutor(3, mp_context=get_context("spawn"), initializer=end_with_parent)
    yield pool
    pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def started(
    request: pytest.FixtureRequest, pool: ProcessPoolExecutor, tmp_path_factory: pytest.TempPathFactory
) -> Started:
    """What was started of every plan that a selected test of the module looks at."""
    rows = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec")
    ]
    plans = dict.fromkeys(row["ran"] for row in rows if "ran" in row)
    return {plan: pool.submit(run_plan, plan, tmp_path_factory.mktemp("ran")) for plan in plans}


@pytest.fixture
def ran(request: pytest.FixtureRequest, started: Started) -> Ran:
    """What became of the plan that the test looks at."""
    return started[request.param].result()
