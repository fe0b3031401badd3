"""What `import tunekit` offers is frozen: a change here is a decision."""

import importlib.metadata
import re
import subprocess
import sys

import tunekit


def test_the_package_offers_its_version_and_nothing_else():
    code = "import tunekit; print(*sorted(name for name in vars(tunekit) if not name.startswith('_')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
    assert isinstance(tunekit.__version__, str)


def test_the_version_is_a_release_number():
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+|\.dev\d+)?", tunekit.__version__)


def test_the_version_is_the_installed_one():
    assert importlib.metadata.version("tunekit") == tunekit.__version__
