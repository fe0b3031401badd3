"""Secrets in commands and texts: found and masked, and nothing else with them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.secret_words import MASK, has_mask, is_secret_name, masked_text, masked_words, secrets_of

HELD = "Zq7Rk2Wv9Tx4Lp8M"


def names_in(text: str) -> list[str]:
    return text.split()


SECRET_NAMES = names_in(
    """
    --api-key --api_key --apikey --apiKey api.key.api_key --wandb-api-key WANDB_API_KEY COMET_API_KEY
    wandb.api_key logger.api_key +logger.api_key ++trainer.logger.neptune.api_token --password
    --db-password --pw --pwd DB_PASSWORD PGPASSWORD MYSQL_PWD --passwd --passphrase --token --hf-token
    --hf_token HF_TOKEN HUGGINGFACE_HUB_TOKEN hub_token --auth-token --access-token accessToken
    NEPTUNE_API_TOKEN GITHUB_TOKEN --secret --client-secret AWS_SECRET_ACCESS_KEY
    AWS_ACCESS_KEY_ID_SECRET aws.secret_access_key --secret-key --private-key --storage-account-key
    AccountKey SharedAccessKey MY_KEY DEPLOY_KEY --license-key SMTP_PASS --db-pass --cookie
    --credentials --encryption-key OPENAI_API_KEY CLEARML_API_SECRET_KEY --session-token root_password
    dbpassword
    """
)

OTHER_NAMES = names_in(
    """
    --tokenizer --tokenizer-name --token-dropout --max_tokens --max-tokens --num-tokens --tokens
    --token-type --pad-token --eos_token --bos_token EOS_TOKEN PAD_TOKEN --mask-token --unk-token
    --tokens-per-batch TOKENIZERS_PARALLELISM --key-dim --key_dim --num_keys --keys --monkey --turkey
    --keyboard --keypoints --keep-checkpoints --sort-key --image-key --label_key --text-key --group-key
    PRIMARY_KEY --key --passes --num-passes --low-pass --n-pass --bypass --compass --author --authors
    --auth-mode --authenticate --secretary --password-file --passwordless --secret-dim --no-password
    --use-token --ask-password --signature --sigma --passthrough --cookiecutter PWD OLDPWD KEYBOARD
    --hidden-key-size --monkey-patch --kv-cache --bucket --lr
    """
)


@pytest.mark.parametrize("name", SECRET_NAMES)
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


@pytest.mark.parametrize("name", OTHER_NAMES)
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


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"https://ada:{HELD}@host.io/repo.git", f"https://{MASK}@host.io/repo.git"),
        (f"https://{HELD}@github.com/a/b", f"https://{MASK}@github.com/a/b"),
        (f"postgresql://u:{HELD}@db:5432/runs", f"postgresql://{MASK}@db:5432/runs"),
        (f"mysql+pymysql://u:p@{HELD}@db/runs", f"mysql+pymysql://{MASK}@db/runs"),
        *((f"postgresql://u:{sign}{HELD}@db:54/runs", f"postgresql://{MASK}@db:54/runs") for sign in "/#?@"),
        *((f"redis://:p{sign}{HELD}@db/0?x=1 b", f"redis://{MASK}@db/0?x=1 b") for sign in "/#?@"),
        (f"https://u:p@s/{HELD}@host.io/repo.git", f"https://{MASK}@host.io/repo.git"),
        (f"[a://u:{HELD}@h b://v:/{HELD}@i]", f"[a://{MASK}@h b://{MASK}@i]"),
        (f"https://a.blob.core.windows.net/c?sv=2&sig={HELD}%3D&se=3", "https://a.blob.core.windows.net/c?sv=2&sig=***&se=3"),
        (f"https://x.io/data?token={HELD}", "https://x.io/data?token=***"),
        (f"https://s3.io/b?X-Amz-Credential={HELD}&Date=1", "https://s3.io/b?X-Amz-Credential=***&Date=1"),
        (f"Authorization: Bearer {HELD}", f"Authorization: Bearer {MASK}"),
        (f"AccountName=x;AccountKey={HELD}==;Suffix=y", f"AccountName=x;AccountKey={MASK};Suffix=y"),
        (f"Namespace(lr=0.1, api_key='{HELD}')", f"Namespace(lr=0.1, api_key='{MASK}')"),
        ("a hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345 b", f"a {MASK} b"),
        ("ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789", MASK),
        ("github_pat_11ABCDEFG0abcdefghij_KLMNOP", MASK),
        ("glpat-AbCdEfGhIjKlMnOpQrSt", MASK),
        ("sk-AbCdEfGhIjKlMnOpQrStUvWx", MASK),
        ("sk-proj-AbCd_EfGhIjKl-MnOpQrStUvWx", MASK),
        ("AKIAIOSFODNN7EXAMPLE", MASK),
        ("xoxb-123456789012-AbCdEfGhIj", MASK),
        ("AIzaSyA-1234567890abcdefghijklmnopqrst", MASK),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sflKxwRJSM", MASK),
        ("https://hooks.slack.com/services/T0000/B0000/AbCdEfGhIjKl", f"https://hooks.slack.com/services/{MASK}"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\n-----END", f"-----BEGIN PRIVATE KEY-----{MASK}-----END"),
    ],
)  # fmt: skip
def test_addresses_and_known_shapes_are_masked(text: str, masked: str):
    assert masked_text(text) == masked
    assert masked_words(("python", "train.py", text))[2] == masked


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
