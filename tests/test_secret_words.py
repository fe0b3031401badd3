"""Secrets in commands and texts: found and masked, and nothing else with them. The corpus is in secrets/."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.secret_words import (
    MASK,
    has_mask,
    is_secret_name,
    masked_text,
    masked_words,
    secrets_of,
)
from tunekit.trial.cleanup import close_folder

HELD = "Zq7Rk2Wv9Tx4Lp8M"
CORPUS = Path(__file__).with_name("secrets")


def corpus(name: str) -> str:
    return (CORPUS / name).read_text(encoding="utf-8")


def marked_texts() -> dict[str, str]:
    plain = corpus("texts.txt").translate({ord("·"): None, ord("␛"): "\x1b", ord("␉"): "\t"})
    return dict(text.rstrip("\n").split("\n", 1) for text in plain.split("\n== ")[1:])


def unmarked(text: str) -> str:
    return re.sub("[«»]", "", text)


TEXTS = marked_texts()
LOGS = corpus("logs.txt").splitlines()


def test_the_corpus_is_whole():
    assert len(corpus("names.txt").split()) == len(TEXTS) == 80
    assert len(LOGS) == 100
    assert sum(title.startswith("OPEN: ") for title in TEXTS) <= 4


@pytest.mark.parametrize("name", corpus("names.txt").split())
def test_the_value_of_a_secrets_name_is_masked_in_every_form(name: str):
    bare = name.lstrip("-+")
    assert is_secret_name(name)
    assert masked_words((f"{name}={HELD};&x",)) == (f"{name}={MASK}",)
    if name.startswith("--"):
        assert masked_words((name, HELD, "--lr", "0.1")) == (name, MASK, "--lr", "0.1")
        assert HELD not in masked_words(("bash", "-c", f"python train.py {name} {HELD} --lr 1"))[2]
    for text in (f"{bare}={HELD} x", f"{bare}: {HELD}", f"{bare} = '{HELD}'", f"{{'{bare}': '{HELD}'}}"):
        assert HELD not in masked_text(text)
        assert masked_text(text).replace(MASK, HELD) == text


@pytest.mark.parametrize("name", corpus("other-names.txt").split())
def test_other_names_keep_their_values(name: str):
    words = (name, HELD) if name.startswith("-") else ("env", f"{name}={HELD}")
    bare = name.lstrip("-")
    assert masked_words(words) == words
    assert masked_words((f"{name}={HELD}",)) == (f"{name}={HELD}",)
    assert not secrets_of(words).values
    for text in (
        f"{bare}={HELD}",
        f"{bare}: {HELD}",
        f"python train.py {name} {HELD}",
        f'{{"{bare}": "{HELD}"}}',
    ):
        assert masked_text(text) == text


@pytest.mark.parametrize("title", TEXTS)
def test_a_text_loses_its_secrets_and_nothing_else(title: str):
    text, masked = unmarked(TEXTS[title]), re.sub("(?s)«.*?»", MASK, TEXTS[title])
    found = (masked_text(text), masked_text(json.dumps(text)))
    assert (found == (masked, json.dumps(masked))) != title.startswith("OPEN: ")
    assert (masked_words(("train.py", text))[1] == text) == title.startswith("OPEN: ")


def test_logs_of_trainings_stay_as_they_are():
    for text in (*LOGS, corpus("logs.txt")):
        assert masked_text(text) == text
        assert masked_text(json.dumps(text)) == json.dumps(text)


def test_a_trials_output_is_masked_also_beside_a_nul(tmp_path: Path):
    log = tmp_path / "output.log"
    log.write_text(f"\0 api_key={HELD}")
    assert close_folder(tmp_path, secrets_of(())) == ()
    assert log.read_text() == f"\0 api_key={MASK}"


@pytest.mark.parametrize(
    ("words", "masked"),
    [
        ("--secrets Zq7 Rk2 --lr 1", "--secrets *** *** --lr 1"),
        ("--password -hunter22 --lr 1", "--password *** --lr 1"),
        ("--token -v --lr 1", "--token -v --lr 1"),
        ("--token X train.py", "--token *** train.py"),
        ("--token=X train.py", "--token=*** train.py"),
    ],
)
def test_the_words_after_a_secrets_flag_are_masked(words: str, masked: str):
    assert " ".join(masked_words(words.split())) == masked


@pytest.mark.parametrize(
    "text",
    [
        "git@github.com:ada/repo.git", "ssh://git@github.com/a/b", "abfss://container@account.dfs.core.windows.net/x",
        "s3://bucket/key=5/part.parquet", "https://host:8080/a@b", "ada@example.com", "/data/x@v2/train.py",
        "https://host:8080?by=ada@b", "http://[::1]:80/x@y", "http://host/a:b@c",
        "hf_transformers", "sk-learn-pipeline",
        "task-AbCdEfGhIjKlMnOpQrStUvWx", "risk-AbCdEfGhIjKlMnOpQrStUvWxYz0",
        "password: ${oc.env:DB_PASSWORD}",
        "--api-key $WANDB_API_KEY", "api_key=None", "token: true", "api_key: str",
        "the password was wrong", "KeyError: 'token'",
        "enter token: ", "--token --lr 0.1", "token=<pad>", "secret=",
        "private_key: ~/.ssh/id_ed25519", "GOOGLE_APPLICATION_CREDENTIALS=/home/ada/sa.json", "https://x.io/?page=2",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "train.py:12+4", "a ? b : c",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str):
    assert masked_text(text) == text


@given(
    st.text(max_size=20),
    st.sampled_from(("token: ", "--api-key ", "PASSWORD=", "http://u:", "-----BEGIN PRIVATE KEY-----")),
)
def test_json_stays_json_when_it_is_masked_as_a_text(text: str, before: str):
    line = json.dumps({"message": f"{text}\n{before}{HELD}@{text}"})
    masked = secrets_of(("--password", text)).masked(line)
    assert HELD not in masked
    assert list(json.loads(masked)) == ["message"]


def test_a_text_that_was_cut_off_is_masked_to_its_end():
    assert masked_text(f"password='{HELD}") == f"password='{MASK}"


def test_what_a_command_holds_is_masked_wherever_it_stands():
    words = ("env", f"WANDB_API_KEY={HELD}", "python", "train.py", "--password", 'o"n\u00e9 two/4')
    known = secrets_of(words)
    line = json.dumps({"message": f'{HELD} and o"n\u00e9 two/4'})
    assert known.masked(line) == json.dumps({"message": f"{MASK} and {MASK}"})
    assert known.masked(repr(['o"n\u00e9 two/4'])) == f"['{MASK}']"
    assert known.masked("https://h/?q=o%22n%C3%A9%20two%2F4") == f"https://h/?q={MASK}"


def test_a_short_secret_is_masked_as_a_word_of_its_own_only():
    known = secrets_of(("--password", "adam"))
    assert known.masked("adam, adamw and 'adam'") == f"{MASK}, adamw and '{MASK}'"
    assert secrets_of(("--password", "xyz")).masked("xyz") == "xyz"


def test_variables_of_the_environment_whose_name_says_so_are_known():
    known = secrets_of((), {"WANDB_API_KEY": HELD, "HOME": "/home/ada", "DB": f"pg://u:{HELD[::-1]}@h/x"})
    assert known.masked(f"{HELD} /home/ada u:{HELD[::-1]}") == f"{MASK} /home/ada {MASK}"


def test_what_stands_in_a_config_file_becomes_known():
    known = secrets_of(()).with_texts([f"db:\n  user: ada\n  password: {HELD}\n"])
    assert known.masked(f"opened with {HELD} by ada") == f"opened with {MASK} by ada"


@given(st.lists(st.text(max_size=12) | st.sampled_from(("--token", "api_key=", "a://b@", '"password":'))))
def test_masking_is_stable_and_never_makes_a_text_longer(parts: list[str]):
    text = " ".join(parts)
    once = masked_text(text)
    assert len(once) <= len(text)
    assert masked_text(once) == once
    words = masked_words(parts)
    assert masked_words(words) == words
    assert len(words) == len(parts)
    assert has_mask(words) or words == tuple(parts)
