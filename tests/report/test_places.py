"""Home folders and the machine's name are left out of what others read."""

from pathlib import Path

import pytest
from build_records import host, run, target, trial_record

from tunekit.report.text import HIDDEN_NAME, shortener, without_places
from tunekit.trial.typed_commands import target_text

HOME = Path("/data/people/ada")
SHORTEN = shortener(HOME, Path("/repo"))


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("/data/people/ada/proj/train.py", "~/proj/train.py"),
        ("/home/grace/x and '/home/grace'", "~/x and '~'"),
        ("file:///Users/ada/x", "file://~/x"),
        ("--data=/root/data", "--data=~/data"),
        ('File "/home/ada/t.py", line 3', 'File "~/t.py", line 3'),
        ("/data/people/adamant/x", "/data/people/adamant/x"),
        ("/mnt/home/ada/x", "/mnt/home/ada/x"),
        ("/rooted/x", "/rooted/x"),
        ("https://x.io/home/ada", "https://x.io/home/ada"),
        ("/repo/run/a.yaml and /repo, /x/repo/y", "run/a.yaml and /repo, /x/repo/y"),
    ],
)
def test_a_home_folder_is_written_as_a_tilde(text: str, short: str):
    assert SHORTEN(text) == short


def test_a_run_for_others_names_neither_home_nor_machine():
    seen = run(
        host=host(hostname="ada-desk"),
        target=target(command=("python", f"{HOME}/my proj/t.py"), working_dir=str(HOME)),
        trials=tuple(
            trial_record(number, overrides={"host_name": name})
            for number, name in enumerate(("ada-desk", "lab-7", "ada-desk"))
        ),
    )
    shown = without_places(seen, SHORTEN)
    assert shown.host.hostname == HIDDEN_NAME
    assert [trial.host_name for trial in shown.trials] == ["hidden 1", "hidden 2", "hidden 1"]
    assert "ada-desk" not in shown.model_dump_json() and "lab-7" not in shown.model_dump_json()
    assert shown.target.working_dir == "~"
    assert target_text(shown.target) == "python ~/'my proj/t.py'"
    assert str(HOME) not in shown.model_dump_json()
    assert type(shown).model_validate_json(shown.model_dump_json()) == shown
