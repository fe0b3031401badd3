"""One-word commands: `.venv/bin/nox -s lint`, `fix`, `tests`, `golden`, `size`, `ci`; `nox -l` lists them.

They run the tools of the environment that README's test command makes, and install nothing.
"""

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint"]
nox.needs_version = ">=2024.4"

PYTHON = ".venv/bin/python"


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, import layers and size: what CI checks besides the tests."""
    session.run(".venv/bin/ruff", "check", ".", external=True)
    session.run(".venv/bin/ruff", "format", "--check", ".", external=True)
    session.run(".venv/bin/mypy", external=True)
    session.run(".venv/bin/lint-imports", external=True)
    session.run(PYTHON, ".ci/size.py", external=True)


@nox.session
def fix(session: nox.Session) -> None:
    """Format, and fix what ruff can fix by itself."""
    session.run(".venv/bin/ruff", "check", "--fix", ".", external=True)
    session.run(".venv/bin/ruff", "format", ".", external=True)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests; `nox -s tests -- tests/plan -n 0` passes what follows on to pytest."""
    session.run(PYTHON, "-m", "pytest", *session.posargs, external=True)


@nox.session
def golden(session: nox.Session) -> None:
    """Rewrite the golden files of the tests named after `--`; look at the diff before you commit."""
    session.run(PYTHON, "-m", "pytest", "--update-golden", *session.posargs, external=True)


@nox.session
def size(session: nox.Session) -> None:
    """Count code lines by room and lower the limits to the present totals."""
    session.run(PYTHON, ".ci/size.py", "--lower", external=True)


@nox.session
def ci(session: nox.Session) -> None:
    """Run everything that CI runs, in fresh environments."""
    session.run(".ci/run", external=True)
