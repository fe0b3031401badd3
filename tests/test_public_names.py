"""What `import tunekit` offers is frozen: a change here is a decision."""

import importlib.metadata
import re
import subprocess
import sys

import tunekit


def test_the_package_offers_its_version_and_these_functions_and_nothing_else():
    code = "import tunekit; print(*sorted(name for name in vars(tunekit) if not name.startswith('_')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["load", "profile", "search"]
    assert isinstance(tunekit.__version__, str)


def test_importing_the_package_loads_next_to_nothing():
    code = "import sys; before = set(sys.modules); import tunekit; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}
    assert loaded == {"tunekit"}


def test_the_version_is_a_release_number():
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+|\.dev\d+)?", tunekit.__version__)


def test_the_version_is_the_installed_one():
    assert importlib.metadata.version("tunekit-torch") == tunekit.__version__
