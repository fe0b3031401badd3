"""Secrets in commands and in texts: found by their name, their place in an address or their shape. Pure.

A name says most: `--api-key X`, `--api-key=X`, `WANDB_API_KEY=X`, `logger.api_key=X`, `"password": "X"`. What
is found in a command is masked wherever else it stands. A masked text is never longer than it was.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

MASK = "***"
"""Stands where a secret was."""

_LEAST_LETTERS = 3
"""Of a secret within a text: what is shorter is none, and the mask would be longer."""
_LEAST_KNOWN = 4
"""Of a known secret that is looked for elsewhere: what is shorter stands in other words too."""
_SURE = 8
"""Letters from which on a known secret is masked within longer words as well."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SECRET_NOUNS = _words(
    """
    password passwords passwd passphrase passcode pwd pw secret secrets credential credentials apikey
    apitoken authtoken accesstoken accesskey secretkey privatekey clientsecret cookie cookies
    authorization sas
    """
)
"""What a name ends in whose value is a secret whatever stands before."""
_COMPACT = re.compile(r"(?:password|passwd|passphrase|api_?key|secret_?key|access_?key|auth_?token)$")
"""The same, written in one word with what stands before."""
_NO_VALUE = _words(
    """
    no use ask has is with show hide need needs require enable disable skip
    """
)
"""A name that begins so is a switch."""
_OF_KEYS = _words(
    """
    api access secret private auth account shared storage encryption signing license service client
    master subscription session ssh gpg hmac app user admin deploy wandb comet neptune clearml mlflow
    swanlab hf hub huggingface openai anthropic aws gcp azure s3 minio kaggle
    """
)
"""What makes a key a secret; other keys are those of tables."""
_OF_TOKENS = _words(
    """
    auth access api hf hub huggingface wandb github gh gitlab git bearer secret refresh session csrf jwt
    oauth personal bot slack telegram discord aws gcp azure sas mlflow neptune clearml comet dagshub
    login security service app push pull ci deploy npm pypi kaggle registry id read write
    """
)
_OF_PASSES = _words(
    """
    db database user smtp mail mysql postgres pg redis admin root login http ftp ssh proxy
    """
)
_OF_AUTHS = frozenset(["basic", "http", "proxy"])
_NOUNS_BY_KIND = {"key": _OF_KEYS, "token": _OF_TOKENS, "pass": _OF_PASSES, "auth": _OF_AUTHS}
_NO_SECRET_BEFORE = _words(
    """
    pad eos bos unk cls sep mask sort primary foreign cache group dict image text label index
    """
)
"""With these even a name in capitals is no secret's: EOS_TOKEN, PRIMARY_KEY."""
_NAMED_FOLDERS = frozenset({"PWD", "OLDPWD"})

_PLAIN_VALUES = _words(
    """
    true false none null yes no on off str string int bytes bool optional any
    """
)
_REFERENCE = re.compile(r"\$|%\w+%$|\{\{|<.*>$|\[.*\]$|\(|\*+$|self\.|os\.|args\.|cfg\.|config\.", re.DOTALL)
"""Names where a value is kept, a mark of a vocabulary, or a call: no secret itself."""
_PATH = re.compile(r"(?:~|\.{1,2})/|/[a-z][\w.-]*/|[A-Za-z]:\\")
_AWS_SECRET = re.compile(r"[A-Za-z0-9/+=]{40}")
"""May begin like a path."""

_QUOTE = r"\\*[\"']"
_PAIR = re.compile(
    rf"(?:\\[nrt]|(?<![\w.-]))-{{0,2}}(?P<name>[A-Za-z_][\w.-]{{0,99}})(?:{_QUOTE})?\]?"
    r"[ \t]{0,3}(?:=>|:=|:(?!//)|=)[ \t]{0,3}(?:(?:bearer|basic|token)[ \t]+)?",
    re.IGNORECASE,
)
"""What stands before a value in `name=value`, `name: value`, `"name": "value"`."""
_FLAG = re.compile(r"(?:\\[nrt]|(?<![\w-]))--?(?P<name>[A-Za-z][\w.-]{0,99})[ \t]+(?!-)")
"""What stands before a value in `--name value` within one word, such as `bash -c "..."`."""
_VALUE = re.compile(
    rf"[bru]?(?P<quote>{_QUOTE})(?P<quoted>[^\n]{{1,2000}}?)(?:(?P=quote)|(?=\n)|$)"
    r"|(?P<bare>[^\s\"'`,;&)\]}>|\\{\[(<][^\s\"'`,;&)\]}>|\\]{0,2000})"
)
"""A text that was cut off may lack the closing quote."""
_USERINFO = re.compile(
    r"(?<![a-z0-9+.-])(?P<scheme>[a-z][a-z0-9+.-]{0,30})://(?P<userinfo>"
    r"[^\s:/?#@\[\"'<>\\]{0,100}:(?!\d{1,5}[/?#])[^\s\"'<>\\]{1,500}|[^\s/?#\"'<>\\]{1,500})@",
    re.IGNORECASE,
)
"""A password may have what ends a host's name elsewhere; a port is no password."""
_SSH_LIKE = frozenset({"ssh", "git+ssh", "sftp", "gs", "s3", "abfs", "abfss", "wasb", "wasbs", "hdfs"})
"""Schemes where a name alone before the @ is a user or a container, no token."""
_QUERY = re.compile(
    r"(?<=[?&])(?P<name>sig|signature|key|token|code|[\w-]{0,40}?(?:token|key|secret|signature|password|credential|sig))"
    r"=(?P<bare>[^\s&#\"'<>\\]{3,})",
    re.IGNORECASE,
)
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"hf_[A-Za-z0-9]{16,}"
    r"|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|sk-(?:[A-Za-z0-9]{20,}|(?:proj|ant|svcacct|admin|or|lf|live|test)-[\w-]{16,})"
    r"|[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|gsk_[A-Za-z0-9]{30,}|nvapi-[\w-]{20,}|r8_[A-Za-z0-9]{30,}"
    r"|wandb_v1_\w{20,}"
    r"|A(?:KIA|SIA)[A-Z0-9]{16}"
    r"|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}"
    r"|AIza[\w-]{30,}|ya29\.[\w-]{20,}"
    r"|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{50,}|dop_v1_[a-f0-9]{32,}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|(?<=hooks\.slack\.com/services/)[\w/]{20,}|(?<=/api/webhooks/)\d{6,}/[\w-]{20,}"
    r")"
)
"""Tokens that are known by their first letters."""
_PRIVATE_KEY = re.compile(r"(?<=PRIVATE KEY-----)(?:\\[nr]|[\sA-Za-z0-9+/=]){8,}")


@dataclass(frozen=True)
class Secrets:
    """What is known to be secret of one command and its environment."""

    values: tuple[str, ...] = ()
    """Longest first, in every form in which a text may hold them."""

    def masked(self, text: str) -> str:
        """Return a text without them, and without whatever else shows by name, place or shape."""
        for value in self.values:
            if value in text:
                text = _known(value).sub(MASK, text)
        return masked_text(text)

    def with_texts(self, texts: Iterable[str]) -> "Secrets":
        """Return these and those that stand under a name of theirs in texts, such as config files."""
        found = [value for text in texts for value in _named_values(text)]
        return Secrets(_forms([*self.values, *found]))


def secrets_of(words: Sequence[str], environment: Mapping[str, str] | None = None) -> Secrets:
    """Return the secrets of a command and of the variables whose names say that they hold one."""
    found = [value for _, values in _of_words(words) for value in values]
    for name, value in (environment or {}).items():
        if is_secret_name(name) and _is_secret_value(value):
            found.append(value)
        found += [value[start:end] for start, end in _places(value)]
    return Secrets(_forms(found))


def masked_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command with each secret replaced by the mask."""
    return tuple(word for word, _ in _of_words(words))


def masked_text(text: str) -> str:
    """Return a text without secrets that show by their name, their place in an address or their shape."""
    kept, after = [], 0
    for start, end in _places(text):
        kept += [text[after:start], MASK]
        after = end
    return "".join([*kept, text[after:]])


def has_mask(words: Iterable[str]) -> bool:
    """Return whether a command has lost a secret to the mask."""
    return any(MASK in word for word in words)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return whether a flag, variable or key of this name holds a secret."""
    last = re.split(r"[.\[]", name.strip("-+~\"' ]"))[-1]
    if last in _NAMED_FOLDERS:
        return False
    parts: list[str] = [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", last)]
    if not parts or parts[0] in _NO_VALUE:
        return False
    noun, before = parts[-1], set(parts[:-1])
    if noun in _SECRET_NOUNS or _COMPACT.search(last.lower()) is not None:
        return True
    qualifiers = _NOUNS_BY_KIND.get(noun)
    if qualifiers is None or before & _NO_SECRET_BEFORE:
        return False
    if not before:
        return noun == "token"
    return bool(before & qualifiers) or (noun in ("key", "token", "pass") and last.isupper())


def _is_secret_value(value: str, least: int = _LEAST_LETTERS) -> bool:
    """Return whether a value under a secret's name is one: no switch, no reference, no path."""
    if len(value) < least or value.lower() in _PLAIN_VALUES or _REFERENCE.match(value):
        return False
    return not _PATH.match(value) or _AWS_SECRET.fullmatch(value) is not None


def _of_words(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each word masked, with the secrets that it had."""
    waits = False
    for word in words:
        name, equals, value = word.partition("=")
        if waits and not word.startswith("-"):
            found = [word] if _is_secret_value(word, least=1) else []
            yield (MASK if found else masked_text(word)), found or _named_values(word)
        elif equals and re.fullmatch(r"[-+~\w.\[\]]+", name) and is_secret_name(name):
            found = [value] if _is_secret_value(value, least=1) else []
            yield (f"{name}={MASK}" if found else word), found
        else:
            yield masked_text(word), _named_values(word)
        waits = bool(re.fullmatch(r"--?[A-Za-z][\w.-]*", word)) and is_secret_name(word)


def _named_values(text: str) -> list[str]:
    return [text[start:end] for start, end in _places(text)]


def _places(text: str) -> list[tuple[int, int]]:
    """Return where secrets stand in a text, in order, none within another."""
    found: list[tuple[int, int]] = []
    for match in _USERINFO.finditer(text):
        info = match["userinfo"]
        if ":" in info or match["scheme"].lower() not in _SSH_LIKE:
            found.append(match.span("userinfo"))
    found += [match.span("bare") for match in _QUERY.finditer(text)]
    found += [match.span() for pattern in (_SHAPES, _PRIVATE_KEY) for match in pattern.finditer(text)]
    for pattern in (_PAIR, _FLAG):
        found += _valued(pattern, text)
    return _apart(found)


def _valued(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Yield where the values of secrets' names stand."""
    at = 0
    while match := pattern.search(text, at):
        at = match.end("name")
        value = _VALUE.match(text, match.end()) if is_secret_name(match["name"]) else None
        if value is None:
            continue
        group = "quoted" if value["bare"] is None else "bare"
        if _is_secret_value(value[group]):
            yield value.span(group)
            at = value.end()


def _apart(places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return places in order, those that overlap as one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(place for place in places if place[1] - place[0] >= _LEAST_LETTERS):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _forms(values: Iterable[str]) -> tuple[str, ...]:
    """Return secrets as they are and as JSON, Python and addresses write them, the longest first."""
    forms: set[str] = set()
    for value in values:
        if len(value) >= _LEAST_KNOWN and value != MASK:
            forms |= {value, value.strip(), quote(value, safe=""), repr(value)[1:-1], json.dumps(value)[1:-1]}
            forms.add(json.dumps(value, ensure_ascii=False)[1:-1])
    return tuple(
        sorted((form for form in forms if len(form) >= _LEAST_KNOWN), key=lambda one: (-len(one), one))
    )


def _known(value: str) -> re.Pattern[str]:
    """Return what finds a known secret; a short one only as a word of its own."""
    escaped = re.escape(value)
    return re.compile(escaped if len(value) >= _SURE else rf"(?<!\w){escaped}(?!\w)")
