"""Secrets planted wherever a training has them are in nothing that a verb writes or shows."""

import base64
import gzip
import os
import re
import sys
from pathlib import Path

import pytest
from real_trials import run_tunekit

PLANTED = {
    place: f"{place}9Qx7Rk2Wv4Tz8Lp"
    for place in ("flag", "equals", "word", "address", "variable", "file", "shell", "quoted")
}
SCRIPT = """
import argparse, os, sys
import torch, yaml
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
for flag in ("--config", "--api-key", "--password", "--data-url", "--note"):
    parser.add_argument(flag)
options = parser.parse_args()
settings = yaml.safe_load(open(options.config))
told = [*sys.argv, os.environ["WANDB_API_KEY"], os.environ["SERVICE_TOKEN"], settings["password"]]
print("started with", options, told, settings, flush=True)
print("\\n".join(told), file=sys.stderr, flush=True)
batch_size = settings["data"]["batch_size"]
if batch_size != 32:
    raise RuntimeError(f"no luck with {batch_size}: {told}")
data = TensorDataset(torch.randn(2000, 8), torch.randint(0, 2, (2000,)))
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(1000):
    for inputs, labels in DataLoader(data, batch_size=batch_size, shuffle=True):
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
"""
SETTINGS = "data: {{batch_size: 32}}\npassword: {file}\n"


def texts_in(file: Path) -> list[str]:
    """What a file holds, and what is packed within it."""
    text = file.read_bytes().decode("utf-8", "replace")
    packed = re.findall(r"H4sI[A-Za-z0-9+/=]{100,}", text)
    return [text, *(gzip.decompress(base64.b64decode(one)).decode() for one in packed)]


@pytest.mark.real
def test_no_planted_secret_is_written_or_shown(tmp_path: Path):
    home = tmp_path / "ada-at-home"
    project = home / "project"
    project.mkdir(parents=True)
    (project / "train.py").write_text(SCRIPT)
    (project / "config.yaml").write_text(SETTINGS.format(**PLANTED))
    command = (
        "env",
        f"WANDB_API_KEY={PLANTED['word']}",
        sys.executable,
        str(project / "train.py"),
        *("--config", "config.yaml", "--api-key", PLANTED["flag"], f"--password={PLANTED['equals']}"),
        *("--data-url", f"https://ada:{PLANTED['address']}@data.example/x"),
        *("--note", f'token={PLANTED["shell"]}; {{"client_secret": "{PLANTED["quoted"]}"}}'),
    )
    told: dict[str, str] = {}

    def tunekit(*words: str, code: int = 0) -> str:
        done = run_tunekit(project, *words, HOME=str(home), SERVICE_TOKEN=PLANTED["variable"])
        told[" ".join(words[:3])] = done.stdout + done.stderr
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    bound = ("--bind", "batch_size=config.yaml:data.batch_size", "--window", "0.3")
    bound += ("--fix", "compile=false", "--fix", "precision=fp32", "--fix", "num_workers=0")
    tunekit(
        "search", *bound, "--trials", "1", "--confirm", "1", "--budget", "10m", "--out", "run", "--", *command
    )
    tunekit("search", *bound, "--out", "run", "--", *command, code=2)
    tunekit("report", "run")
    tunekit("report", "run", "--html", "--markdown", str(project / "other.md"))
    tunekit("report", "run", "--json")
    tunekit("plan", "run")
    tunekit("run", "--dry-run", "run/balanced.yaml", "--", *command)
    refused = tunekit("search", "--resume", "run", code=4)
    assert "***" in refused
    assert "give the command after --" in refused
    tunekit("search", "--resume", "run", "--", *command[:-1], "other", code=9)

    found = [
        (place, source)
        for place, secret in PLANTED.items()
        for source, text in [
            *told.items(),
            *((str(file), text) for file in project.rglob("*") if file.is_file() for text in texts_in(file)),
        ]
        if secret in text and Path(source).name not in ("train.py", "config.yaml")
    ]
    assert not found
    trials = [file.read_text() for file in project.rglob("output.log")]
    assert len(trials) >= 2, "the script ran"
    assert all("started with" in text for text in trials)
    for name in ("report.html", "report.md"):
        for text in texts_in(project / "run" / name):
            assert str(home) not in text
            assert os.uname().nodename not in text or len(os.uname().nodename) < 8
    tunekit("report", "run", "--html", "--full-paths")
    assert any(str(project) in text for text in texts_in(project / "run" / "report.html"))
