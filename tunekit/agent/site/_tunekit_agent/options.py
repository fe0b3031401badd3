"""The script's command-line options: how they can be typed, and their current values.

Each parser is inspected after it has parsed, in the process that parses: flags and values come from the
script itself, never from guesses about its text. Only options whose name the parent asked for are reported,
so that no secret and no path leaves the process.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import types
from typing import Any, Callable, Iterable, Iterator

from . import imports

_MAX_OPTIONS = 64
_MAX_REPORTS = 16
_MAX_CHOICES = 16
_MAX_LEAVES = 5000
_MAX_TEXT = 80
_MAX_DEPTH = 12

FLAG, OPTIONAL, SWITCH, KEY, PAIR = "flag", "optional", "switch", "key", "pair"
"""How an option is typed: `--bs 8`, `--amp` or `--amp true`, `--amp`, `data.bs=8`, `DATA.BS 8`."""


def plain_name(name: str) -> str:
    """Return a name's last part, lower-cased and without punctuation: `--data.batchSize` is batchsize."""
    last = name.lstrip("-").rsplit(".", 1)[-1]
    return "".join(letter for letter in last.lower() if letter.isalnum())


class OptionWatch:
    """Inspects the parsers of argparse, click, typer, absl, fire, jsonargparse, Hydra, OmegaConf and yacs."""

    def __init__(self, names: Iterable[str], log: Any) -> None:
        self._names = frozenset(names)
        self._log = log
        self._seen: dict = {}
        self._reported = 0
        self._typed: list = []  # OmegaConf's configs of the command line

    def install(self) -> None:
        for module, kind, method, read in _PARSERS:
            imports.when_imported(
                module, functools.partial(_quietly, self._hang_in_method, kind, method, read)
            )
        for module, hang in (
            ("fire.core", self._hang_in_fire),
            ("hydra._internal.hydra", self._hang_in_hydra),
            ("hydra._internal.core_plugins.basic_launcher", self._hang_in_hydra),
            ("omegaconf.omegaconf", self._hang_in_omegaconf),
        ):
            imports.when_imported(module, functools.partial(_quietly, hang))

    def _look(self, read: Callable, *parsed: Any, **more: Any) -> None:
        _quietly(self._take, read, *parsed, **more)

    def _take(self, read: Callable, *parsed: Any, **more: Any) -> None:
        before = dict(self._seen)
        for option in read(*parsed, **more):
            longs = [flag for flag in option["flags"] if flag.startswith("--")]
            names = [option["name"], *(longs or option["flags"])]
            key = (option["form"], *option["flags"], *option["off"])
            is_known = key in self._seen or len(self._seen) < _MAX_OPTIONS
            if is_known and not self._names.isdisjoint(map(plain_name, names)):
                self._seen[key] = option
        if self._seen != before and self._reported < _MAX_REPORTS:
            self._reported += 1
            self._log.emit("options", pid=os.getpid(), options=list(self._seen.values()))

    def _hang_in_method(self, kind: str, method: str, read: Callable, module: Any) -> None:
        after(getattr(module, kind), method, functools.partial(self._look, read))

    def _hang_in_fire(self, module: Any) -> None:
        original = module._MakeParseFn

        @functools.wraps(original)
        def make_parse_function(function, *args, **kwargs):
            made = types.SimpleNamespace(parse=original(function, *args, **kwargs))
            after(made, "parse", lambda parsed, *_, **__: self._look(_of_fire, function, *parsed[0]))
            return made.parse

        module._MakeParseFn = make_parse_function

    def _hang_in_hydra(self, module: Any) -> None:
        """Read the config when a job runs: Hydra also composes for `compose()`, which runs none."""
        original = module.run_job

        @functools.wraps(original)
        def run_job(*args, **kwargs):
            self._look(_of_omegaconf, kwargs.get("config"))
            return original(*args, **kwargs)

        module.run_job = run_job

    def _hang_in_omegaconf(self, module: Any) -> None:
        after(module.OmegaConf, "from_cli", self._typed_for_omegaconf)
        after(module.OmegaConf, "from_dotlist", self._typed_for_omegaconf)
        after(module.OmegaConf, "merge", self._merged_by_omegaconf)

    def _typed_for_omegaconf(self, result: Any, *_: Any, **__: Any) -> None:
        if len(self._typed) < _MAX_REPORTS:
            self._typed.append(result)

    def _merged_by_omegaconf(self, result: Any, *configs: Any, **__: Any) -> None:
        if any(config is typed for config in configs for typed in self._typed):
            self._look(_of_omegaconf, result)


def after(owner: Any, name: str, look: Callable) -> None:
    """Have `look(result, *arguments)` called after each call of a class's method."""
    descriptor = vars(owner)[name]
    is_static = isinstance(descriptor, staticmethod)
    original = descriptor.__func__ if is_static else descriptor

    @functools.wraps(original)
    def method(*args, **kwargs):
        result = original(*args, **kwargs)
        look(result, *args, **kwargs)
        return result

    setattr(owner, name, staticmethod(method) if is_static else method)


def _quietly(function: Callable, *arguments: Any, **more: Any) -> None:
    """Call a function and ignore its failure: with an unfamiliar parser version, options stay unknown."""
    try:
        function(*arguments, **more)
    except Exception:
        return


# --- reading each parser's options ----------------------------------------------------------


def _option(
    name: str, form: str, value: Any, flags: Iterable = (), off: Iterable = (), choices: Any = ()
) -> dict:
    listed = choices if isinstance(choices, (list, tuple, set, frozenset, range)) else ()
    return {
        "name": str(name)[:_MAX_TEXT],
        "form": form,
        "value": _scalar(value),
        "flags": [str(flag) for flag in flags if len(str(flag)) <= _MAX_TEXT][:8],
        "off": [str(flag) for flag in off if len(str(flag)) <= _MAX_TEXT][:8],
        "choices": [str(_bare(one))[:_MAX_TEXT] for one in list(listed)[:_MAX_CHOICES]],
    }


def _bare(value: Any) -> Any:
    return getattr(value, "value", value)


def _scalar(value: Any) -> Any:
    """Return a value that JSON can hold; None for any other, and for long texts."""
    bare = _bare(value)
    if isinstance(bare, str):
        return bare if len(bare) <= _MAX_TEXT else None
    if isinstance(bare, (bool, int)):
        return bare if abs(bare) < 1 << 53 else None
    if isinstance(bare, float):
        return bare if bare - bare == 0 else None  # finite
    return None


def _of_argparse(result: Any, parser: Any, *_: Any, **__: Any) -> Iterator[dict]:
    namespace = result[0]
    for action in parser._actions:
        if not action.option_strings or not isinstance(action.dest, str):
            continue
        value = getattr(namespace, action.dest, None)
        if value is None and isinstance(action.default, (bool, int, float, str)):
            value = action.default if action.default != "==SUPPRESS==" else None
        flags, off, form = list(action.option_strings), [], FLAG
        if action.nargs == 0:
            form, kind = SWITCH, type(action).__name__
            off = [flag for flag in flags if flag.startswith("--no-")] if "Boolean" in kind else []
            if getattr(action, "const", None) is False:
                off = flags
            elif not off and getattr(action, "const", None) is not True:
                continue  # a count, --help, --version
            flags = [flag for flag in flags if flag not in off]
        elif action.nargs == "?":
            form = OPTIONAL
        elif action.nargs is not None and action.nargs != 1:
            continue
        yield _option(action.dest, form, value, flags, off, action.choices)


def _of_jsonargparse(config: Any, parser: Any, *_: Any, **__: Any) -> Iterator[dict]:
    """Yield the parsed config's options, since the parameters of a class have no action of their own."""
    command, actions = config.get("subcommand"), list(parser._actions)
    for action in parser._actions:
        if command is not None and isinstance(action.choices, dict) and command in action.choices:
            actions += action.choices[command]._actions
    positional = {action.dest for action in actions if not action.option_strings}
    choices = {action.dest: action.choices for action in actions}
    for key, value in list(config.items())[:_MAX_LEAVES]:
        name = key[len(command) + 1 :] if command and key.startswith(f"{command}.") else key
        if name not in positional:
            yield _option(name, FLAG, value, [f"--{name}"], choices=choices.get(name, ()))


def _of_click(result: Any, command: Any, context: Any, *_: Any, **__: Any) -> Iterator[dict]:
    for param in command.get_params(context):
        if getattr(param, "param_type_name", "") != "option" or getattr(param, "count", False):
            continue
        value = context.params.get(param.name)
        form = SWITCH if param.is_flag else FLAG
        if form is SWITCH and not isinstance(value, bool):
            continue
        kind = getattr(param, "type", None) or getattr(param, "type_descriptor", None)  # click, else typer
        choices = getattr(kind, "choices", ())
        yield _option(param.name, form, value, param.opts, param.secondary_opts, choices)


def _of_absl(result: Any, flags: Any, *_: Any, **__: Any) -> Iterator[dict]:
    for name in list(flags):
        flag = flags[name]
        if flag.name != name:
            continue  # a short name
        if flag.boolean:
            yield _option(name, SWITCH, flag.value, [f"--{name}"], [f"--no{name}"])
        else:
            choices = getattr(flag.parser, "enum_values", ())
            yield _option(name, FLAG, flag.value, [f"--{name}"], choices=choices)


def _of_fire(function: Any, varargs: Any, kwargs: Any) -> Iterator[dict]:
    import inspect

    bound = inspect.signature(function).bind(*varargs, **kwargs)
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        form = OPTIONAL if isinstance(value, bool) else FLAG
        yield _option(name, form, value, [f"--{name}"])


def _of_omegaconf(config: Any) -> Iterator[dict]:
    container = sys.modules["omegaconf"].OmegaConf.to_container(config, resolve=False)
    container.pop("hydra", None)
    for key, value in itertools.islice(_leaves(container), _MAX_LEAVES):
        if not (isinstance(value, str) and "${" in value):  # change what it refers to instead
            yield _option(key, KEY, value, [key])


def _of_yacs(result: Any, config: Any, *_: Any, **__: Any) -> Iterator[dict]:
    leaves = itertools.islice(_leaves(config), _MAX_LEAVES)
    return (_option(key, PAIR, value, [key]) for key, value in leaves)


def _leaves(tree: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple]:
    for key, value in tree.items():
        if not isinstance(value, dict):
            yield f"{prefix}{key}", value
        elif depth < _MAX_DEPTH:
            yield from _leaves(value, f"{prefix}{key}.", depth + 1)


_PARSERS = (
    ("argparse", "ArgumentParser", "parse_known_args", _of_argparse),
    ("jsonargparse._core", "ArgumentParser", "parse_args", _of_jsonargparse),
    ("jsonargparse.core", "ArgumentParser", "parse_args", _of_jsonargparse),
    ("click.core", "Command", "parse_args", _of_click),
    ("typer._click.core", "Command", "parse_args", _of_click),
    ("absl.flags._flagvalues", "FlagValues", "__call__", _of_absl),
    ("yacs.config", "CfgNode", "merge_from_list", _of_yacs),
)
"""Module, class and method that parses; and the function that reads options from its result and arguments."""
