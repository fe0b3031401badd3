"""Single keys of config files: read, rewritten with everything else kept, and never written."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tunekit.errors import TargetError, UsageError
from tunekit.trial.config_files import all_keys, read_key, with_values

YAML_TEXT = """\
# what we train
defaults: &defaults
    batch_size: &bs 32   # per GPU
    name:   "run one"
data:
    <<: *defaults
    val_batch: *bs
    prefetch:      # not set
    digits: '64'
loaders:
-   workers: 4
-   {workers: 2, pin: yes}
sizes: [1, 2, *bs]
flow: {<<: *defaults, a: 1}
tagged: !!int "3"
lr: 1e-3
0: zero
0.5: half
"a.b": dotted
"c.d": {e.f: {g: 1}, true: 2}
text: |
    several
    lines
"""

JSON_TEXT = """\
{
  "train": {"batch_size": 32, "lr": 0.001, "name": "größe"},
  "steps": [1, {"n": 2}],
  "digits": "64"
}
"""

TOML_TEXT = """\
# what we train
title = 'run'   # its name

[data]   # loaders
batch_size = 32   # per GPU
digits = "64"
inline = { workers = 4, pin = true }

[[steps]]
n = 1
[[steps]]
n = 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.yaml").write_text(YAML_TEXT)
    (tmp_path / "a.json").write_text(JSON_TEXT)
    (tmp_path / "a.toml").write_text(TOML_TEXT)
    return tmp_path


def changed_lines(before: str, after: str) -> list[tuple[str, str]]:
    pairs = list(zip(before.splitlines(), after.splitlines(), strict=True))
    return [(old, new) for old, new in pairs if old != new]


# --- reading -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("a.yaml", "defaults.batch_size", 32),
        ("a.yaml", "data.batch_size", 32),
        ("a.yaml", "data.val_batch", 32),
        ("a.yaml", "data.prefetch", None),
        ("a.yaml", "data.digits", "64"),
        ("a.yaml", "loaders.1.workers", 2),
        ("a.yaml", "sizes.1", 2),
        ("a.yaml", "lr", 0.001),
        ("a.yaml", "0", "zero"),
        ("a.yaml", "a.b", "dotted"),
        ("a.yaml", "0.5", "half"),
        ("a.yaml", "c.d.e.f.g", 1),
        ("a.yaml", "c.d.True", 2),
        ("a.json", "train.name", "größe"),
        ("a.json", "steps.1.n", 2),
        ("a.toml", "data.inline.pin", True),
        ("a.toml", "steps.1.n", 2),
    ],
)
def test_a_dotted_key_is_read(folder: Path, name: str, key: str, value: object):
    read = read_key(folder / name, key)
    assert read == value == all_keys(folder / name)[key]
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("name", "key", "told"),
    [
        ("a.yaml", "data.val_bacth", "did you mean data.val_batch"),
        ("a.yaml", "workers", r"did you mean loaders\.0\.workers or loaders\.1\.workers"),
        ("a.yaml", "xyzzy", r"it has defaults\.batch_size"),
        ("a.yaml", "loaders.2.workers", "no key"),
        ("a.yaml", "loaders.-1.workers", "no key"),
        ("a.yaml", "lr.deeper", "no key"),
        ("a.yaml", "data", r"more than one value; name one of its keys: data\."),
        ("a.json", "batch_size", r"did you mean train\.batch_size"),
        ("a.toml", "steps", r"name one of its keys: steps\.0\.n, steps\.1\.n"),
    ],
)
def test_a_key_that_is_not_there_names_what_is_near(folder: Path, name: str, key: str, told: str):
    for attempt in (lambda: read_key(folder / name, key), lambda: with_values(folder / name, {key: 1})):
        with pytest.raises(UsageError, match=told):
            attempt()


def test_a_missing_file_names_what_is_beside_it(folder: Path):
    with pytest.raises(TargetError, match=r"no file 'b\.yaml' in .*did you mean a\.yaml"):
        read_key(folder / "b.yaml", "lr")
    with pytest.raises(TargetError, match="check the path"):
        read_key(folder / "none" / "b.yaml", "lr")
    with pytest.raises(TargetError, match="can't be read"):
        read_key(folder, "lr")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("b.yaml", b"a: 1\n---\na: 2\n"),
        ("b.yaml", b"a:\n\tb: 1\n"),
        ("b.yaml", b"[" * 20000),
        ("b.json", b"[" * 200000),
    ],
)
def test_a_file_that_cannot_be_read_is_a_target_error(tmp_path: Path, name: str, content: bytes):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TargetError, match=f"{name}.*(correct it|save it)"):
        read_key(tmp_path / name, "a")


@pytest.mark.parametrize(("name", "content"), [("b.yaml", ""), ("b.yaml", "- 1\n"), ("b.json", "3")])
def test_a_file_without_keys_has_none_of_them(tmp_path: Path, name: str, content: str):
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match="no key 'a'"):
        read_key(tmp_path / name, "a")


# --- rewriting -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "old", "new"),
    [
        ("defaults.batch_size", 64, "&bs 32   # per GPU", "&bs 64   # per GPU"),
        ("defaults.name", "it's", '"run one"', '"it\'s"'),
        ("data.prefetch", 4, "prefetch:      # not set", "prefetch: 4      # not set"),
        ("data.digits", 128, "'64'", "'128'"),
        ("loaders.0.workers", 8, "-   workers: 4", "-   workers: 8"),
        ("loaders.1.pin", False, "pin: yes", "pin: false"),
        ("sizes.0", None, "[1, 2, *bs]", "[null, 2, *bs]"),
        ("flow.a", "no", "a: 1}", 'a: "no"}'),
        ("flow.a", "bf16", "a: 1}", "a: bf16}"),
        ("tagged", 5, '!!int "3"', "5"),
        ("lr", 5e-05, "1e-3", "5.0e-05"),
        ("0", "one", "zero", "one"),
        ("a.b", "x: y", "dotted", '"x: y"'),
    ],
)
def test_yaml_changes_nowhere_but_at_the_key(folder: Path, key: str, value: Any, old: str, new: str):
    after = with_values(folder / "a.yaml", {key: value})
    assert after == YAML_TEXT.replace(old, new, 1) != YAML_TEXT


@pytest.mark.parametrize("key", ["sizes.2", "text", "data.val_batch", "data.batch_size", "flow.batch_size"])
def test_a_place_that_cannot_be_rewritten_is_refused(folder: Path, key: str):
    with pytest.raises(TargetError, match=r"a\.yaml: .*; write"):
        with_values(folder / "a.yaml", {key: 1})


@pytest.mark.parametrize(
    ("name", "key", "value", "written"),
    [
        ("a.yaml", "defaults.batch_size", "16", 16),
        ("a.yaml", "defaults.batch_size", "bf16-mixed", "bf16-mixed"),
        ("a.yaml", "loaders.0.workers", "true", True),
        ("a.yaml", "defaults.name", "32", "32"),
        ("a.yaml", "defaults.name", 32, 32),
        ("a.json", "digits", 32, "32"),
        ("a.json", "train.lr", 1, 1),
        ("a.json", "digits", None, None),
        ("a.toml", "data.digits", True, "true"),
        ("a.toml", "data.digits", 0.5, "0.5"),
        ("a.toml", "data.inline.pin", "0", 0),
    ],
)
def test_a_value_has_the_type_that_the_file_has_there(
    folder: Path, name: str, key: str, value: Any, written: object
):
    (folder / f"b-{name}").write_text(with_values(folder / name, {key: value}))
    read = read_key(folder / f"b-{name}", key)
    assert read == written
    assert type(read) is type(written)


def test_toml_keeps_comments_and_has_no_null(folder: Path):
    after = with_values(folder / "a.toml", {"data.batch_size": 64, "data.inline.workers": 8, "steps.1.n": 3})
    assert changed_lines(TOML_TEXT, after) == [
        ("batch_size = 32   # per GPU", "batch_size = 64   # per GPU"),
        ("inline = { workers = 4, pin = true }", "inline = { workers = 8, pin = true }"),
        ("n = 2", "n = 3"),
    ]
    assert with_values(folder / "a.toml", {"data.batch_size": None}) == TOML_TEXT


# --- for any file --------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x7f\u0085"), max_size=6)
)
words = st.from_regex(r"[a-z]{1,4}", fullmatch=True)
trees = st.dictionaries(
    words,
    st.recursive(
        scalars,
        lambda child: st.lists(child, max_size=3) | st.dictionaries(words, child, max_size=3),
        max_leaves=8,
    ),
    min_size=1,
    max_size=4,
)


def places(tree: Any, key: str = "") -> list[str]:
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else None
    if pairs is None:
        return [key]
    return [place for name, child in pairs for place in places(child, f"{key}.{name}" if key else str(name))]


def without_none(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: without_none(child) for name, child in tree.items() if child is not None}
    return [without_none(child) for child in tree if child is not None] if isinstance(tree, list) else tree


def dumped(tree: Any, name: str, style: bool | None) -> str:
    if name == "b.json":
        return json.dumps(tree, indent=2)
    if name == "b.yaml":
        return str(yaml.safe_dump(tree, default_flow_style=style, sort_keys=False, allow_unicode=True))
    import tomlkit

    return tomlkit.dumps(tree)


def parsed(text: str, name: str) -> Any:
    if name == "b.json":
        return json.loads(text)
    return tomllib.loads(text) if name == "b.toml" else YAML(typ="safe", pure=True).load(text)


def put(tree: Any, key: str, value: object) -> None:
    *above, last = key.split(".")
    for name in above:
        tree = tree[int(name)] if isinstance(tree, list) else tree[name]
    tree[int(last) if isinstance(tree, list) else last] = value


@given(trees, st.sampled_from(["b.json", "b.yaml", "b.toml"]), st.integers(1, 999), st.data())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_one_key_of_any_file_changes_and_the_file_does_not(
    tmp_path: Path, tree: Any, name: str, value: int, data: st.DataObject
):
    tree = without_none(tree) if name == "b.toml" else tree
    path = tmp_path / name
    text = dumped(tree, name, data.draw(st.sampled_from([None, True, False])))
    path.write_bytes(text.encode())
    expected = parsed(text, name)
    keys = [key for key in places(expected) if not isinstance(read_or_none(path, key), str)]
    if not keys:
        return
    key = data.draw(st.sampled_from(keys))
    after = with_values(path, {key: value})
    put(expected, key, value)
    assert parsed(after, name) == expected
    assert path.read_bytes() == text.encode()


def read_or_none(path: Path, key: str) -> object:
    return "" if not key else read_key(path, key)


@given(value=scalars, quote=st.sampled_from(["", "'", '"']))
def test_a_scalar_is_read_alike_by_every_yaml(
    tmp_path_factory: pytest.TempPathFactory, value: Any, quote: str
):
    path = tmp_path_factory.getbasetemp() / "one.yaml"
    path.write_text(f"a: {quote}text{quote}   # one\n")
    text = with_values(path, {"a": value})
    assert text.endswith("   # one\n")
    for read in (yaml.safe_load(text), YAML(typ="safe", pure=True).load(text)):
        assert read == {"a": value}
        assert type(read["a"]) is type(value)
