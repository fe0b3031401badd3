"""What is shipped and promised: README, dependencies, pinned versions, the bare agent."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tunekit"
SITE = PACKAGE / "agent" / "site"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
README = (ROOT / "README.md").read_text()
CI = (ROOT / ".ci" / "run").read_text()
SET_UP = "python3 -m venv .venv && .venv/bin/pip install -c constraints.txt "

DISTRIBUTION_OF = {
    "pydantic_core": "pydantic-core",
    "pynvml": "nvidia-ml-py",
    "ruamel": "ruamel.yaml",
    "yaml": "pyyaml",
}
"""Import names that differ from the name of what is installed."""
OPTIONAL = {"PIL", "pandas"}
"""What a function asks for by name where it is called, with the command that installs it."""


def imported_names(source: Path) -> Iterator[str]:
    """Yield the top-level name of every absolute import, wherever in the file it stands."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def foreign_names(folder: Path) -> set[str]:
    """Return what a folder imports that is neither the standard library's nor the folder's own."""
    sources = list(folder.rglob("*.py"))
    own = {path.stem for path in sources} | {path.name for path in folder.rglob("*") if path.is_dir()}
    names = {name for source in sources for name in imported_names(source)}
    return names - set(sys.stdlib_module_names) - own - {"tunekit"}


def requirement_name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower()


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = (line.partition("==") for line in lines if line and not line.startswith("#"))
    return {name.lower().replace("_", "-"): version for name, _, version in pins}


@pytest.mark.parametrize("ending", ["tunekit search --gpu a10g", "python -m pytest"])
def test_readme_has_each_command_once_and_it_sets_up_everything(ending: str) -> None:
    (command,) = [line for line in README.splitlines() if line.endswith(f"/{ending}")]
    assert command.startswith(SET_UP)
    assert README.count(f"```bash\n{command}\n```") == 1


def test_ci_runs_the_commands_that_it_finds_in_readme() -> None:
    endings = re.findall(r"\$\(readme_command '(.+)'\)", CI)
    (pattern,) = re.findall(r'grep -E -- "(.+) \$1\\\$"', CI)
    for ending in endings:
        (command,) = [line for line in README.splitlines() if re.search(f"{pattern} {ending}$", line)]
        assert command.startswith(SET_UP)
    assert endings == ["-m pytest", "search --gpu a10g"]
    assert 'eval "${test_command##* && } $folders ' in CI


def test_dependencies_are_what_the_package_imports() -> None:
    declared = {requirement_name(requirement) for requirement in PROJECT["dependencies"]}
    imported = {DISTRIBUTION_OF.get(name, name) for name in foreign_names(PACKAGE)}
    assert imported - OPTIONAL == declared


def test_constraints_pin_every_direct_dependency_and_no_gpu_package() -> None:
    pins = pinned()
    direct = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"]
    assert pins["torch"] == "2.13.0"
    assert all(pins.get(requirement_name(requirement)) for requirement in direct), pins
    assert not [name for name in pins if re.match(r"nvidia-(?!ml-py)|cuda|triton", name)]


def test_the_agent_imports_only_the_standard_library() -> None:
    assert foreign_names(SITE) == set()


@pytest.mark.parametrize("source", sorted(SITE.rglob("*.py")), ids=lambda path: path.name)
def test_the_agent_compiles_on_python_39(source: Path) -> None:
    text = source.read_text()
    ast.parse(text, feature_version=(3, 9))
    # The grammar alone would let `X | None` annotations through, which 3.9 can't evaluate.
    assert "from __future__ import annotations" in text or " | None" not in text
