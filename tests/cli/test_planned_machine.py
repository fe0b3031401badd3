"""`tunekit plan --ram`: a machine's memory from a run or from flags, and what is refused."""

from pathlib import Path

import pytest
from build_fits import fit, fits_run, traced_trial
from build_loop_profiles import profiled
from build_records import GIB, MIB, interval, recommendation, run

from tunekit.cli.main import main
from tunekit.records.codec import from_json, to_json
from tunekit.records.config import Precision
from tunekit.records.machine_budget import MachineBudget

HERE = ("--ram", "62", "--cpus", "16", "--gpu", "a10g")


@pytest.fixture
def searched(tmp_path: Path) -> Path:
    finished = run(recommendations=(recommendation(rate_samples_per_s=interval(180.0)),))
    (tmp_path / "run.json").write_text(to_json(finished))
    return tmp_path


@pytest.fixture
def predicted(tmp_path: Path) -> Path:
    """What tunekit fits wrote, with its trial's traces; its script trains with a batch of 16."""
    saved = fits_run((fit("a10g", 22.0, (90, 100, 110)),), trials=(traced_trial(tmp_path / "trials"),))
    (tmp_path / "fits.json").write_text(to_json(saved))
    return tmp_path


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> MachineBudget:
    assert main(["plan", *words, "--json"]) == 0
    return from_json(capsys.readouterr().out, MachineBudget)


def test_the_verdicts_of_a_batch_need_no_run(capsys: pytest.CaptureFixture[str]):
    budget = planned(capsys, *HERE, "--batch-mib", "230")
    verdicts = {(one.num_workers, one.prefetch_factor): one for one in budget.cells}
    assert verdicts[32, 8].buffer_bytes == 256 * 230 * MIB
    assert [verdicts[at].verdict for at in ((32, 8), (8, 8), (16, 2), (4, 8))] == [
        "OOM",
        "Risky",
        "Safe",
        "Safe",
    ]
    assert (budget.machine.ram_limit_bytes, budget.machine.profile_id) == (62 * GIB, "a10g")
    assert (
        planned(capsys, "--ram", "62GB", *HERE[2:], "--batch-mib", "1").machine.ram_limit_bytes == 62 * 10**9
    )


def test_a_search_gives_its_batch_and_its_processes(searched: Path, capsys: pytest.CaptureFixture[str]):
    budget = planned(capsys, str(searched), *HERE)
    assert budget.batch_bytes == 128 * 1000
    assert budget.chosen is not None and budget.chosen.is_present
    twice = planned(capsys, str(searched), *HERE, "--batch", "256")
    assert twice.batch_bytes == 256 * 1000
    assert any(one.startswith("device memory") for one in budget.unknown)


def test_traces_give_device_memory_at_any_batch_on_any_gpu(
    predicted: Path, capsys: pytest.CaptureFixture[str]
):
    own = planned(capsys, str(predicted), *HERE).vram
    assert own is not None
    assert (own.batch_size, own.precision, own.fits) == (16, Precision.FP32, "yes")
    words = ("--ram", "62", "--cpus", "16", "--gpu", "t4", "--batch", "2000", "--precision", "fp16")
    other = planned(capsys, str(predicted / "fits.json"), *words).vram
    assert other is not None
    assert (other.batch_size, other.precision) == (2000, Precision.FP16)
    assert other.largest_batch > own.batch_size


def test_a_global_batch_is_made_of_batches_that_fit(predicted: Path, capsys: pytest.CaptureFixture[str]):
    budget = planned(capsys, str(predicted), *HERE, "--gpus", "4", "--global-batch", "16384")
    made, vram = budget.accumulation, budget.vram
    assert made is not None and vram is not None
    assert made.batch_size * made.steps * 4 == 16384
    assert made.steps > 1 and made.batch_size <= vram.largest_batch < 4096
    assert vram.batch_size == made.batch_size
    small = planned(capsys, str(predicted), *HERE, "--batch", "8", "--global-batch", "1024").accumulation
    assert small is not None
    assert (small.batch_size, small.steps) == (8, 128)
    flags = planned(capsys, *HERE, "--batch", "100", "--global-batch", "1024").accumulation
    assert flags is not None
    assert (flags.batch_size, flags.steps, flags.limit) == (64, 16, "--batch 100")


def test_a_search_that_has_not_begun_knows_nothing_of_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "run.json").write_text(to_json(run(trials=())))
    budget = planned(capsys, str(tmp_path), *HERE)
    assert (budget.cells, budget.vram, budget.batch_bytes) == ((), None, None)
    assert any(one.startswith("workers x prefetch") for one in budget.unknown)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--cpus", "16"], "--cpus 16 is of a machine that is not here; add --ram GIB"),
        (["--batch-mib", "230"], "--batch-mib 230 is of a machine that is not here; add --ram GIB"),
        (["--global-batch", "64"], "--global-batch 64 is of a machine that is not here; add --ram GIB"),
        (["--ram", "62", "--batch-mib", "1"], "--ram needs the machine's CPUs too; add --cpus N"),
        (
            [*HERE],
            "--ram needs a training: give a run folder, or the size of a batch: --batch-mib N",
        ),
        (
            [*HERE, "--batch-mib", "1", "--rate", "1.1it/s"],
            "--rate 1.1it/s is for hours and dollars, --ram for a machine's memory; drop one",
        ),
        (
            [*HERE, "--batch-mib", "1", "--max-session", "6h"],
            "--max-session 360m is for hours and dollars, --ram for a machine's memory; drop one",
        ),
        (
            [*HERE, "--batch-mib", "1", "--only", "t4"],
            "--only t4 is for hours and dollars, --ram for a machine's memory; drop one",
        ),
        (
            [*HERE, "--batch-mib", "1", "--spot"],
            "--spot is for hours and dollars, --ram for a machine's memory; drop one",
        ),
        ([*HERE, "--batch-mib", "1", "--tier", "balanced"], "--tier balanced needs a run; give its folder"),
        (
            [*HERE, "--batch-mib", "1", "--precision", "bf16"],
            "--precision bf16 needs a run; give its folder",
        ),
        (
            [*HERE, "--batch-mib", "1", "--batch", "64"],
            "--batch 64 needs a run here, or --global-batch; drop it or add one",
        ),
        (
            [*HERE, "--global-batch", "64"],
            "--global-batch 64 needs what fits a GPU: add --batch N, or a run folder",
        ),
        (
            ["RUN", *HERE, "--global-batch", "64"],
            "--global-batch 64 needs what fits a GPU: add --batch N, or --gpu NAME with a run that predicted "
            "it",
        ),
        (
            [*HERE[:4], "--batch-mib", "1", "--gpu", "cpu"],
            "--gpu cpu: it has no memory of its own, or none that is known; leave --gpu out",
        ),
        (["RUN", *HERE, "--batch-mib", "1"], "RUN knows the bytes of a batch; drop --batch-mib 1"),
        (
            ["--ram", "62", "--cpus", "16", "--batch-mib", "100000"],
            "--batch-mib 100000: a batch of 97.7 GiB is more than the 62.0 GiB of --ram; give the size of "
            "one batch, or more RAM",
        ),
        (
            [*HERE, "--gpus", "32", "--batch-mib", "1"],
            "--gpus 32 with --cpus 16: each GPU's process needs a CPU of its own; give all CPUs of the "
            "machine, or fewer GPUs",
        ),
        (
            ["RUN", *HERE, "--tier", "aggressive"],
            "RUN has no aggressive tier (it has: balanced); choose another --tier",
        ),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    words: list[str], told: str, searched: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["plan", *(str(searched) if word == "RUN" else word for word in words)]) == 2
    assert capsys.readouterr().err.replace(str(searched), "RUN") == f"tunekit: {told}\n"


@pytest.mark.parametrize(
    ("flag", "most"),
    [("--cpus", "4,096"), ("--gpus", "65,536"), ("--global-batch", "10,000,000"), ("--batch", "10,000,000")],
)
def test_a_number_that_can_not_be_meant_is_refused_with_its_bound_and_a_remedy(
    flag: str, most: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit, match="2"):
        main(["plan", "--ram", "62", flag, "1e9"])
    assert f"argument {flag}: must be at most {most}, got '1e9'; give the " in capsys.readouterr().err


def test_a_name_that_stands_for_another_is_said_and_so_is_a_memory_that_is_not_known(
    capsys: pytest.CaptureFixture[str],
):
    words = ("--ram", "62", "--cpus", "16", "--gpu", "a100", "--batch-mib", "230")
    (taken,) = planned(capsys, *words).taken_names
    assert (taken.typed, taken.profile_id) == ("a100", "a100-sxm-40")
    assert taken.others == ("a100-pcie-40", "a100-pcie-80", "a100-sxm-80")
    assert planned(capsys, *HERE, "--batch-mib", "230").taken_names == ()
    for full in ((), ("--full",)):
        assert main(["plan", *words, *full]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "a100 is a100-sxm-40 (others: a100-pcie-40, a100-pcie-80, a100-sxm-80)." in shown
        assert "Device memory of a100-sxm-40: n/a; give the RUN folder" in shown


def test_a_loop_profile_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "profile.json").write_text(to_json(profiled()))
    assert main(["plan", str(tmp_path), *HERE]) == 2
    assert (
        "holds a loop profile; give the folder of tunekit search or tunekit fits" in capsys.readouterr().err
    )


def test_its_report_is_written_as_a_page_and_as_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page, comment = tmp_path / "memory.html", tmp_path / "memory.md"
    words = ["plan", *HERE, "--batch-mib", "230", "--html", str(page), "--markdown", str(comment)]
    assert main(words) == 0
    assert "16 workers x prefetch 2: Safe" in " ".join(capsys.readouterr().out.split())
    for written in (page, comment):
        assert "57.5 GiB OOM" in written.read_text()
