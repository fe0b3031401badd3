"""Finds and masks secrets in commands and texts, by their name, position or prefix. Pure.

The name is the best clue: `--api-key X`, `--api-key=X`, `WANDB_API_KEY=X`, `logger.api_key=X`,
`"password": "X"`. A secret found in a command is masked wherever else it occurs. Masking never makes a text
longer.

No library does this better: of the tests' 80 texts with secrets and 100 logs without, detect-secrets 1.5
masks 55 and alters 85, betterleaks 2.0 (23 MB) masks 15 and alters none.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from urllib.parse import quote

MASK = "***"
"""The text that replaces a secret."""

_MIN_LETTERS = 3
"""Minimum length of a secret found in a text: shorter values aren't secrets, and the mask would be longer."""
_MIN_KNOWN = 4
"""Minimum length of a known secret to search for elsewhere: shorter ones occur in other words."""
_SURE = 8
"""Minimum length of a known secret to mask within longer words too."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NOUN = re.compile(
    r"(?:^|_)(?:[a-z]*(?:password|passwd|passphrase|apikey|secret|(?:api|auth|access)token)s?"
    r"|[a-z]*(?:access|secret|private)key|passcode|pwd|pw|credentials?|creds|cookies?|authorization|sas|jwt"
    r"|masterauth|requirepass|[a-z]*storepass|(?:db|database|user|smtp|mail|mysql|postgres|pg|redis|admin|root"
    r"|login|http|ftp|ssh|proxy|npm|docker)_?(?:pass|auth))(?:_|$)"
)
"""Matches names of secrets, after their words are lowercased and joined with _."""
_SERVICES = _words(
    """
    wandb comet neptune clearml mlflow swanlab dagshub kaggle hf hub huggingface openai anthropic aws s3 gcp
    azure minio github gh gitlab git devops bitbucket ci npm pypi docker registry slack telegram discord vault
    """
)
_OF_KEYS = _SERVICES | _words(
    """
    api access secret private auth account shared storage encryption signing license service client master
    subscription session ssh gpg hmac app user admin deploy bearer refresh csrf jwt oauth personal bot sas
    login security push pull read write
    """
)
"""Words that make a key or token a secret; other keys and tokens belong to tables and vocabularies."""
_KEYS = _words("key keys token pat pass")
_VAGUE = _words("token auth")
"""Words that on their own name a secret, though in texts only if the value looks like one."""
_OF_TABLES = _words(
    "pad eos bos unk cls sep mask sort primary foreign cache group dict image text label index"
)
"""Words with which even an uppercase name is not a secret's: EOS_TOKEN, PRIMARY_KEY."""
_NO_VALUE = _words("no use ask has is with show hide need needs require enable disable skip num max min")
"""A name that starts with one of these is a switch or a number."""
_ABOUT = _words(
    """
    file path dir folder name id ids type mode dim size length len count limit policy ttl timeout url uri host
    port prompt reset env field stdin manager provider helper class sharer split budget sock user service app
    client embedding
    """
)
"""A name that ends with one of these describes a secret but does not hold it."""

_NO_SECRET = re.compile(
    r"(?i:(?:true|false|none|null|yes|no|on|off|str|string|int|bytes|bool|optional|any)?$)"
    r"|-----BEGIN|\$|%\w+%$|\{\{|<.*>$|\[.*\]$|\(|\*+$|\d{1,3}$|\d*\.\d+$|self\.|os\.|args\.|cfg\.|config\."
    r"|(?![A-Za-z0-9/+=]{40}$)(?:(?:~|\.{1,2})/|/[a-z][\w.-]*/|[A-Za-z]:\\)",
    re.DOTALL,
)
"""Values that are not secrets: constants, references to a value, vocabulary tokens, calls, and paths (except
what could be an AWS secret)."""
_RANDOM = re.compile(r"(?=\D*\d)(?:(?=.*[a-z])(?=.*[A-Z])(?:\S{20,}|(?=\D*\d\D*\d)\S{10,})|[0-9a-f]{20,})")
"""What secrets look like: digits among letters of both cases, or a long hexadecimal number."""

_ESCAPE = re.compile(
    r"((?:\x1b|\\{1,16}(?:u001b|x1b|033|e))\[[0-9;]*[A-Za-z]|\\{1,16}(?:u[0-9a-fA-F]{4}|[nrt\"'])|\\\\)"
)
"""A terminal escape sequence, or a character escaped as in JSON and Python."""

_FLAG = re.compile(r"--.*|-[A-Za-z]\d*|-[a-z][a-z_.-]*(?:=.*)?", re.DOTALL)
"""A word that is the next option rather than a value that starts with a dash."""

_NAMED = re.compile(
    r"(?<![\w.-])(?P<name>(?:(?:api|access|secret|auth)[ ])?-{0,2}[A-Za-z_][\w.-]{0,99})(?:(?P<sure>"
    r"[\"']?\]?[ \t]{0,40}(?:=>|:=|:(?!//)|=)[ \t]{0,40}"
    r"|>(?=[^<>\n]+</)"
    r"|[\"']?(?:</\w+>)?[\s,]{0,60}[<\"']?value[\"']?[>:=][ \t]*"
    r")|[\"'],[ \t]*(?=[\"'])|[ \t]+(?:[|│┃][ ]*|(?:is|was)[: ]+)?)",
    re.IGNORECASE,
)
"""A name before a value: `name=`, `"name": `, `<name>`, `"name", "value": `; less certain with a comma or
spaces."""
_LIST = re.compile(r"\[[^\[\]]{1,4000}\]|(?:\s*\n[ \t]*- +[^\n:]+)+")
_VALUE = re.compile(
    r"(?:(?:[>|][+-]?)?\s*\n[ \t]+(?!-|[\"']?[\w.-]+[\"']?[ \t]*[:=]))?"
    r"(?:(?:bearer|basic|token|apikey|(?:aws4-|[!&])[\w-]+)[ \t]+)?[bru]?(?:"
    r"(?P<quotes>\"{3}|'{3})\s*(?P<long>.{1,2000}?)\s*(?P=quotes)"
    r"|(?P<quote>[\"'])(?P<quoted>(?:(?!\"\s*[,:}\]])[^\n]){1,2000}?)(?P=quote)"
    r"|[\"'](?P<open>[^\n\"']{1,2000})"
    r"|(?P<bare>[^\s\"'`,;&)\]}>|{\[(<][^\s\"'`,;&)\]}>|<]{0,2000}))",
    re.IGNORECASE | re.DOTALL,
)
"""A value, which in YAML may be on the next line; in truncated text the closing quote may be missing."""

_TOKENS = _words(
    """
    hf_ gho_ ghp_ ghs_ ghu_ ghr_ github_pat_ glpat- glrt- gldt- glptt- glcbt- sk- sk_live_ sk_test_ rk_live_
    rk_test_ gsk_ r8_ xai- pplx- tvly- rpa_ nvapi- jina_ lsv2_pt_ lsv2_sk_ pcsk_ wandb_v1_ npm_ pypi-
    rubygems_ dckr_pat_ dckr_oat_ AKIA ASIA AIza ya29. GOCSPX- dop_v1_ doo_v1_ dor_v1_ dapi hvs. hvb. hvr.
    xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- SG. shpat_ shpca_ shppa_ shpss_ whsec_ sq0atp-
    sq0csp- lin_api_ ntn_ figd_ phx_ glsa_ sntrys_ sntryu_ ATATT3 PMAK- pul- tskey- ops_eyJ AGE-SECRET-KEY-
    """
)
"""Prefixes that services give their tokens to make them recognisable."""
_TOOL = r"(?:\s[^\n|;]{0,200})?\s"
_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        # In a URL; a port is not a password, and in some schemes a lone name is a user or a container.
        r"://(?=[^\s\"'<>\\]{1,600}@)(?P<secret>[^\s:/?#@\[\"'<>\\]{0,100}:(?!\d{1,5}[/?#])[^\s\"'<>\\]{1,500})@",
        r"://(?<!(?:gs|s3)://)(?<!ssh://)(?<!(?:sftp|hdfs|abfs|wasb)://)(?<!(?:abfss|wasbs)://)"
        r"(?P<secret>[^\s/?#\"'<>\\]{1,500})@",
        r"[?&](?:code|[\w-]{0,40}?(?i:token|key|secret|signature|password|credential|sig))="
        r"(?P<secret>[^\s&#\"'<>]+)",
        r"(?:hooks\.slack\.com/\w+|/api/webhooks|/webhookb2)/(?P<secret>[^\s\"'<>?]{20,})",
        # In a header, to its end.
        r"(?:[Aa]uthorization|AUTHORIZATION|[Cc]ookie(?=[^\n=]{1,80}=\w))[\"']?\]?\s{0,3}[:=]\s{0,3}[\"']?"
        r"(?:[\w-]+ +)?+(?P<secret>[^\s\"'*$({<][^\n\"']*)",
        # In the commands and files of other tools.
        rf"curl{_TOOL}(?:-u|--user|--proxy-user)[ =]?[\"']?(?P<secret>[^\s\"':]*:[^\s\"']+)",
        rf"(?:mysql\w*|mariadb|7z){_TOOL}-p(?P<secret>[^\s\"']+)",
        rf"(?:sshpass|(?:docker|podman|registry) login){_TOOL}-p\s*(?P<secret>[^\s\"']+)",
        rf"(?:redis-cli|ldapsearch|sqlcmd|zip){_TOOL}-[awP]\s*(?P<secret>[^\s\"']+)",
        rf"wandb login{_TOOL}(?P<secret>\w{{40,}})",
        r"login\((?:key=|token=)?[\"'](?P<secret>[^\s\"']+)",
        r"-pass(?:in|out)? pass:(?P<secret>[^\s\"']+)",
        r"(?:machine\s+\S+|default)\s+login\s+\S+\s+password\s+(?P<secret>[^\s\"']+)",
        r":(?:\d{4,5}|\*):(?=\S{0,99}[g-z])[^:\s]{1,63}:[^:\s]{1,63}:(?P<secret>[^:\s\"']{1,99})(?![:\w])",
        r"\"username\":\s*\"[^\"\n]+\",\s*\"key\":\s*\"(?P<secret>[^\"\n]+)",
        # By the shape of the secret itself.
        r"PRIVATE KEY(?: BLOCK)?-----"
        r"(?P<secret>(?:(?!-----)[\s\S]){8,16000}(?=-----END)|[\sA-Za-z0-9+/=]{8,})",
        r":(?<=\d:)(?P<secret>AA[\w-]{32,33})(?![\w-])",
        r"(?P<secret>eyJ(?<![A-Za-z0-9]eyJ)[\w-]{8,}\.[\w-]{8,}\.[\w-]*)",
        rf"(?<![A-Za-z0-9])(?P<secret>(?:{'|'.join(map(re.escape, sorted(_TOKENS)))})"
        r"(?=[\w.-]{0,99}?(?=[a-z]{0,9}[A-Z0-9])[A-Za-z0-9]{10})[\w.-]{14,})",
    )
)


@dataclass(frozen=True)
class Secrets:
    """The known secrets of one command and its environment."""

    values: tuple[str, ...] = ()
    """The secrets in every form in which they may occur in a text."""

    def masked(self, text: str) -> str:
        """Mask these secrets in a text, and any others found by name, position or shape."""
        kept: list[str] = []
        after = 0
        for start, end in sorted(self.places(text)):
            if start > after or not kept:
                kept += [text[after:start], MASK]
            after = max(after, end)
        return "".join([*kept, text[after:]])

    def with_texts(self, texts: Iterable[str]) -> "Secrets":
        """Return these secrets plus those that are found in texts, such as config files."""
        found = [value for text in texts for value in _values_in(text)]
        return Secrets(_forms([*self.values, *found]))

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each secret in a text."""
        read, read_ends, text_ends = _read(text)
        found = [match.span("secret") for pattern in _PLACES for match in pattern.finditer(read)]
        for value in self.values:
            word = re.escape(value) if len(value) >= _SURE else rf"(?<!\w){re.escape(value)}(?!\w)"
            found += [match.span() for match in re.finditer(word, read)] if value in read else []
        for start, end in (*found, *_named(read)):
            first, last = bisect_right(read_ends, start) - 1, bisect_left(read_ends, end)
            if end - start >= _MIN_LETTERS:
                yield start + text_ends[first] - read_ends[first], end + text_ends[last] - read_ends[last]


def secrets_of(words: Sequence[str], environment: Mapping[str, str] | None = None) -> Secrets:
    """Return the secrets of a command, and of environment variables whose names indicate one."""
    variables = [f"{name}={value}" for name, value in (environment or {}).items()]
    return Secrets(_forms([value for _, found in _of_words([*variables, *words]) for value in found]))


def masked_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command with each secret replaced by the mask."""
    return tuple(word for word, _ in _of_words(words))


def masked_text(text: str) -> str:
    """Mask the secrets in a text that are found by name, position or shape."""
    return Secrets().masked(text)


def has_mask(words: Iterable[str]) -> bool:
    """Return whether a secret in a command was masked."""
    return any(MASK in word for word in words)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return whether a flag, variable or key with this name holds a secret."""
    last = re.split(r"[.\[]", name.strip("-+~\"' ]"))[-1]
    parts = _parts(last)
    if not parts or parts[0] in _NO_VALUE or parts[-1] in _ABOUT or last in ("PWD", "OLDPWD"):
        return False
    if _NOUN.search("_".join(parts)) or last.lower() in _VAGUE:
        return True
    if _OF_TABLES.intersection(parts) or _KEYS.isdisjoint(parts):
        return False
    if last.isupper() and len(parts) > 1 and parts[-1] in _KEYS:
        return True
    return not _OF_KEYS.isdisjoint(_parts(name))


def _parts(name: str) -> list[str]:
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def _of_words(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each word masked, with the secrets that it contained."""
    flag = ""
    for word in words:
        name, _, value = word.partition("=")
        is_named = re.fullmatch(r"[-+~\w.\[\]]+", name) is not None and is_secret_name(name)
        if flag and not _FLAG.fullmatch(word):
            shown, value = MASK, word
            flag = flag if flag.endswith("s") else ""
        else:
            shown, value = f"{name}={MASK}", value if is_named else ""
            flag = word if is_named and word == name and word.startswith("-") else ""
        if value and not _NO_SECRET.match(value):
            yield shown, [value]
        else:
            yield masked_text(word), _values_in(word)


def _read(text: str) -> tuple[str, list[int], list[int]]:
    """Return a text without escapes, and where its pieces end in it and in the original."""
    pieces = _ESCAPE.split(text)
    read = [_letter(piece) if at % 2 else piece for at, piece in enumerate(pieces)]
    return "".join(read), [0, *accumulate(map(len, read))], [0, *accumulate(map(len, pieces))]


def _letter(escape: str) -> str:
    """Return the character that an escape stands for; empty for a terminal escape sequence."""
    letter = escape.lstrip("\\") or "\\"
    return "" if "[" in escape else f"\\{letter}".encode().decode("unicode_escape")


def _values_in(text: str) -> list[str]:
    return [text[start:end] for start, end in Secrets().places(text)]


def _named(text: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of values that follow the name of a secret."""
    at = 0
    while match := _NAMED.search(text, at):
        name, sign, at = match["name"], match["sure"], match.end("name")
        is_flag = name.startswith("-") and sign is None
        is_sure = sign is not None and name.lower() not in _VAGUE
        for value in _values(text, match.end()) if is_secret_name(name) else ():
            found = value[value.lastgroup or 0]
            is_sure_here = is_sure or (is_flag and not found.startswith("-")) or _RANDOM.match(found)
            if is_sure_here and not _NO_SECRET.match(found):
                yield value.span(value.lastgroup or 0)
                at = value.end()


def _values(text: str, at: int) -> Iterable[re.Match[str]]:
    """Return the value after a name, or the values if it is a list."""
    if listed := _LIST.match(text, at):
        return _VALUE.finditer(text, listed.start() + 1, listed.end())
    return filter(None, [_VALUE.match(text, at)])


def _forms(values: Sequence[str]) -> tuple[str, ...]:
    """Return secrets as they are, and as encoded in URLs and in JSON."""
    forms = {form for value in values for form in (value, value.strip(), quote(value, safe=""))}
    forms |= {_read(form)[0] for value in values for form in (value, json.dumps(value)[1:-1])}
    return tuple(sorted(form for form in forms if len(form) >= _MIN_KNOWN))
