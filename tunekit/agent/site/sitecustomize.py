"""Starts the tunekit agent in a trial, after the user's own sitecustomize."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_users_own():
    """Run the sitecustomize that this one hides, as if it had been found first."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    elsewhere = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    ours = sys.modules["sitecustomize"]
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules["sitecustomize"] = ours
        raise


def _start_agent():
    request = os.environ.get("TUNEKIT_REQUEST")
    if not request:
        return
    import _tunekit_agent

    _tunekit_agent.start(request)


try:
    _start_agent()
finally:
    _run_users_own()
