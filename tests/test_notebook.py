"""A saved run in a notebook: its report as text and HTML, its figures, its trials as a table."""

import copy
import io
import subprocess
import sys
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest
from build_fits import fit, fits_run
from build_loop_profiles import profiled
from build_records import baseline_record, config, failure, run, trial_record
from build_reports import full_run
from build_scaling import scaled
from read_report import view
from rich.console import Console

import tunekit
from tunekit.errors import NoChartError, RunFolderError, TunekitError, UsageError
from tunekit.notebook import LoadedRun
from tunekit.records.codec import to_json
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind
from tunekit.report.run import on_one_screen
from tunekit.report.terminal import draw
from tunekit.session.folder import SavedRun


def saved(folder: Path, record: Run) -> Path:
    (folder / "run.json").write_text(to_json(record))
    return folder


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedRun:
    return tunekit.load(saved(tmp_path, full_run()))


def test_a_run_is_loaded_by_its_folder_or_its_file(tmp_path: Path):
    folder = saved(tmp_path, full_run())
    for given in (folder, str(folder), folder / "run.json"):
        assert tunekit.load(given).record == full_run()
        assert f"{folder}/balanced.yaml" in repr(tunekit.load(given))


@pytest.mark.parametrize(
    ("file", "record", "shown"),
    [
        ("profile.json", profiled(), "Step time"),
        ("fits.json", fits_run((fit("a10g", 22.1, (219, 250, 294)),)), "a10g"),
        ("scale.json", scaled(), "Speedup of"),
    ],
)
def test_what_other_verbs_save_is_loaded_and_shown_too(
    file: str, record: SavedRun, shown: str, tmp_path: Path
):
    (tmp_path / file).write_text(to_json(record))
    found = tunekit.load(tmp_path)
    assert found.record == record
    assert shown in repr(found)
    assert shown in found._repr_html_()
    assert dir(found.figures) == []
    assert len(found.to_dataframe()) == len(record.trials)


def test_a_folder_without_a_run_is_an_error(tmp_path: Path):
    with pytest.raises(RunFolderError, match=r"run.json is missing"):
        tunekit.load(tmp_path)


def test_it_is_shown_as_on_a_terminal_of_100_columns(loaded: LoadedRun, tmp_path: Path):
    out = io.StringIO()
    draw(
        Console(width=100, file=out, color_system=None, highlight=False),
        on_one_screen(loaded.record, tmp_path),
    )
    assert repr(loaded) == out.getvalue().strip("\n")
    assert " ".join(repr(loaded).split()).startswith(view(loaded.record).answer)
    assert view(loaded.record).answer.partition(": ")[2].partition(" with ")[0] in loaded._repr_html_()


def test_each_chart_is_a_method(loaded: LoadedRun):
    known = dir(loaded.figures)
    assert {"time_breakdown", *(chart.id for chart in view(loaded.record).charts)} <= set(known)
    for name in known:
        drawn = getattr(loaded.figures, name)()
        assert isinstance(drawn, go.Figure)
        assert drawn.data


def test_a_chart_without_figures_says_which_there_are(tmp_path: Path, loaded: LoadedRun):
    with pytest.raises(
        NoChartError, match=r"no figures for a chart 'nonsense'; its charts: .*time_breakdown"
    ):
        loaded.figures.nonsense()
    empty = tunekit.load(saved(tmp_path, run(trials=())))
    assert dir(empty.figures) == []
    with pytest.raises(TunekitError, match="'time_breakdown'; its charts: none"):
        empty.figures.time_breakdown()
    assert not hasattr(empty.figures, "_repr_mimebundle_"), "or a notebook would ask it for a drawing"
    assert dir(copy.copy(loaded.figures)) == dir(loaded.figures)


def test_every_trial_is_a_row_of_a_table(tmp_path: Path):
    gone = failure(OutcomeKind.HOST_OOM, message="out of memory")
    trials = (
        baseline_record(),
        trial_record(1, 1000.0, config(batch_size=256, num_workers=0)),
        trial_record(2, None, overrides={"failure": gone, "config": None}),
    )
    table = tunekit.load(saved(tmp_path, run(trials=trials))).to_dataframe()
    assert list(table.columns[:7]) == [
        *("number", "role", "state", "samples_per_s", "rate_interval_relative"),
        *("batch_size", "num_workers"),
    ], "what people look at first"
    assert list(table["number"]) == [0, 1, 2]
    assert list(table["role"]) == ["baseline", "search", "search"]
    assert table["samples_per_s"][1] == pytest.approx(1000.0)
    assert table["rate_interval_relative"][1] == trials[1].measurement.loop.rate_interval_relative
    assert table["it_per_s"][1] == pytest.approx(1000.0 / 256)
    assert table["peak_reserved_bytes"][1] == trials[1].measurement.loop.peak_reserved_bytes
    assert table["peak_pss_bytes"][1] == trials[1].measurement.memory.peak_pss_bytes
    assert list(table["state"]) == ["measured", "measured", "failed"]
    assert table["failure_kind"][2] == "host_oom"
    assert table["failure_message"][2] == "out of memory"
    assert table["prefetch_factor"].isna().tolist() == [False, True, True]
    assert table.loc[2, ["batch_size", "samples_per_s", "data_wait_s"]].isna().all()
    numeric = {"number", "round", "batch_size", "num_workers", "prefetch_factor", "accumulate_grad_batches"}
    numeric |= {"rate_interval_relative", "samples_per_s", "it_per_s", "data_wait_s", "duration_s"}
    numeric |= {"peak_reserved_bytes", "peak_pss_bytes"}
    for name in numeric:
        assert pd.api.types.is_numeric_dtype(table[name]), name
    assert table["compile"].dtype == "boolean"


def test_a_run_without_trials_is_an_empty_table_with_the_same_columns(tmp_path: Path, loaded: LoadedRun):
    filled = loaded.to_dataframe()
    empty = tunekit.load(saved(tmp_path, run(trials=()))).to_dataframe()
    assert len(empty) == 0
    assert (empty.dtypes == filled.dtypes).all()


def test_without_pandas_it_says_how_to_get_it(loaded: LoadedRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        loaded.to_dataframe()


def test_a_run_is_shown_where_there_is_no_torch_and_no_plotly_is_loaded(tmp_path: Path):
    saved(tmp_path, full_run())
    code = (
        "import sys\n"
        "sys.modules.update(torch=None, optuna=None, pynvml=None)\n"
        "import tunekit\n"
        "run = tunekit.load(sys.argv[1])\n"
        "assert 'speedup' in repr(run) and '<div>' in run._repr_html_()\n"
        "assert 'plotly' not in sys.modules and 'pandas' not in sys.modules\n"
        "assert run.figures.time_breakdown().data\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
