"""Training scripts as packages ship them, tuned unmodified: what they are is seen, nothing is touched.

The packages are fetched by pip into an environment of their own, without what they depend on: that comes from
the tests' environment, since tunekit is checked here and not the packages.
"""

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from real_trials import share_compiled
from zoo_trials import python_without_tunekit

from tunekit.records.codec import read_json
from tunekit.records.run import Run, RunStatus
from tunekit.records.trial import TrialRole

pytestmark = [pytest.mark.real, pytest.mark.slow]

PACKAGES = (
    "trl==1.16.0",
    *("datasets==5.2.0", "dill==0.4.1", "multiprocess==0.70.19", "xxhash==4.1.0"),
    "litgpt==0.5.13",
)
QUICK = ("--trials", "2", "--confirm", "1", "--window", "0.3", "--budget", "10m")
FIXED = ("--fix", "precision=fp32", "--fix", "compile=false")
MATERIAL = """
import json, shutil
from pathlib import Path

import torch
from litgpt import GPT, Config
from litgpt.utils import save_config
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

torch.manual_seed(0)
letters = ["<|end|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
tokens = Tokenizer(models.BPE(vocab={one: at for at, one in enumerate(letters)}, merges=[]))
tokens.pre_tokenizer, tokens.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
PreTrainedTokenizerFast(
    tokenizer_object=tokens, eos_token="<|end|>", pad_token="<|end|>"
).save_pretrained("llama")
size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
LlamaForCausalLM(
    LlamaConfig(**size, vocab_size=len(letters), max_position_embeddings=128, eos_token_id=0, pad_token_id=0)
).save_pretrained("llama")

pythia = Config(
    name="pythia-14m", vocab_size=len(letters), padded_vocab_size=len(letters), block_size=64,
    n_layer=2, n_head=2, n_embd=32, intermediate_size=64,
)
folder = Path("base/pythia")
folder.mkdir(parents=True)
torch.save(GPT(pythia).state_dict(), folder / "lit_model.pth")
save_config(pythia, folder)
for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
    shutil.copy(Path("llama") / name, folder / name)

def write(path, rows):
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text("".join(json.dumps(row) + "\\n" for row in rows))

asked = [f"What is {number} plus {number}? " for number in range(400)]
write("sums/train.jsonl", [
    {"prompt": one, "completion": f"It is {2 * at}."} for at, one in enumerate(asked)
])
write("instructions.jsonl", [{"instruction": one, "output": f"{2 * at}"} for at, one in enumerate(asked)])
"""
"""Writes models of some thousand parameters and small data sets: no hub is asked for any."""


@dataclass(frozen=True)
class Script:
    """A script of a package, the flags it is called with, and what these say."""

    words: tuple[str, ...]
    batch_size: int
    num_workers: int
    accumulate: int

    def __str__(self) -> str:
        return "-".join(self.words[1:3] if self.words[1] == "litgpt" else self.words[1:2])


TRL = (
    *("--model_name_or_path", "./llama", "--output_dir", "out", "--report_to", "none", "--use_cpu"),
    *("--bf16", "False", "--max_steps", "2000"),
)
LITGPT = (
    *("base/pythia", "--out_dir", "out", "--devices", "1", "--precision", "32-true", "--logger_name", "csv"),
    *("--data", "JSON", "--data.json_path", "instructions.jsonl", "--data.val_split_fraction", "0.05"),
    *("--train.epochs", "100", "--train.max_steps", "2000", "--train.max_seq_length", "64"),
    *("--train.lr_warmup_steps", "2", "--eval.final_validation", "false"),
)
SCRIPTS = [
    Script(
        (
            *("-m", "trl.scripts.sft", *TRL, "--dataset_name", "./sums", "--dataloader_num_workers", "1"),
            *("--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "1"),
        ),
        *(4, 1, 1),
    ),
    Script(
        (
            *("-m", "litgpt", "finetune_full", *LITGPT, "--data.num_workers", "1"),
            *("--train.global_batch_size", "8", "--train.micro_batch_size", "4"),
        ),
        *(4, 1, 2),
    ),
]


@dataclass(frozen=True)
class Environment:
    """Where the packages are, and what their scripts are called with."""

    python: Path
    packages: Path
    folder: Path
    """The working folder, with the models and the data."""
    variables: dict[str, str]


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the packages as they were published, over torch's; no hub is asked for anything."""
    place = tmp_path_factory.mktemp("public")
    python = python_without_tunekit(place)
    (packages,) = (place / "venv" / "lib").glob("python*/site-packages")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", packages, *PACKAGES)
    fetched = subprocess.run(pip, capture_output=True, text=True, timeout=300, check=False)
    assert fetched.returncode == 0, f"the packages could not be fetched: {fetched.stdout}{fetched.stderr}"

    folder = place / "work"
    folder.mkdir()
    variables = {
        **os.environ,
        "HF_HOME": str(place / "hub"),
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    making = subprocess.run(
        [python, "-c", MATERIAL], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert making.returncode == 0, making.stdout + making.stderr
    return Environment(python, packages, folder, variables)


def contents(folder: Path) -> dict[str, str]:
    """Return everything below a folder with its bytes' hash."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_a_public_script_is_understood_tuned_and_nothing_is_touched(
    script: Script, public: Environment, tmp_path: Path
) -> None:
    share_compiled(tmp_path / "run" / "trials")
    before = contents(public.folder), contents(public.packages)
    searching = [sys.executable, "-m", "tunekit", "search", *QUICK, *FIXED, "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [*searching, "--", str(public.python), *script.words],
        cwd=public.folder,
        env=public.variables,
        capture_output=True,
        text=True,
        timeout=700,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (contents(public.folder), contents(public.packages)) == before

    run = read_json(tmp_path / "run" / "run.json", Run)
    assert run.status is RunStatus.FINISHED
    assert [trial.failure for trial in run.trials if trial.failure] == []
    baseline = next(trial for trial in run.trials if trial.role is TrialRole.BASELINE)
    assert baseline.measurement is not None
    assert baseline.config is not None
    seen = baseline.config
    assert seen.batch_size == script.batch_size
    assert seen.num_workers == script.num_workers
    assert seen.accumulate_grad_batches == script.accumulate
    assert [trial for trial in run.trials if trial.measurement and trial.config != seen]
