"""Secrets in commands and in texts: found by their name, their place or their first letters. Pure.

A name says most: `--api-key X`, `--api-key=X`, `WANDB_API_KEY=X`, `logger.api_key=X`, `"password": "X"`. What
is found in a command is masked wherever else it stands. A masked text is never longer than it was.

No library does this better: of the tests' 80 texts and 100 logs, detect-secrets 1.5 masks 55 and changes 85,
betterleaks 2.0 (23 MB) masks 15 and changes none.
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
"""Stands where a secret was."""

_MIN_LETTERS = 3
"""Of a secret within a text: what is shorter is none, and the mask would be longer."""
_MIN_KNOWN = 4
"""Of a known secret that is looked for elsewhere: what is shorter stands in other words too."""
_SURE = 8
"""Letters from which on a known secret is masked within longer words as well."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NOUN = re.compile(
    r"(?:^|_)(?:[a-z]*(?:password|passwd|passphrase|apikey|secret|(?:api|auth|access)token)s?"
    r"|[a-z]*(?:access|secret|private)key|passcode|pwd|pw|credentials?|creds|cookies?|authorization|sas|jwt"
    r"|masterauth|requirepass|[a-z]*storepass|(?:db|database|user|smtp|mail|mysql|postgres|pg|redis|admin|root"
    r"|login|http|ftp|ssh|proxy|npm|docker)_?(?:pass|auth))(?:_|$)"
)
"""What makes a name that of a secret, its words in small letters with _ between."""
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
"""What makes a key or a token a secret; others are those of tables and vocabularies."""
_KEYS = _words("key keys token pat pass")
_VAGUE = _words("token auth")
"""Alone they are a name, but in a text only of a value that looks like a secret."""
_OF_TABLES = _words(
    "pad eos bos unk cls sep mask sort primary foreign cache group dict image text label index"
)
"""With these even a name in capitals is no secret's: EOS_TOKEN, PRIMARY_KEY."""
_NO_VALUE = _words("no use ask has is with show hide need needs require enable disable skip num max min")
"""A name that begins so is a switch or a number."""
_ABOUT = _words(
    """
    file path dir folder name id ids type mode dim size length len count limit policy ttl timeout url uri host
    port prompt reset env field stdin manager provider helper class sharer split budget sock user service app
    client embedding
    """
)
"""A name that ends so describes a secret and does not hold it."""

_NO_SECRET = re.compile(
    r"(?i:(?:true|false|none|null|yes|no|on|off|str|string|int|bytes|bool|optional|any)?$)"
    r"|-----BEGIN|\$|%\w+%$|\{\{|<.*>$|\[.*\]$|\(|\*+$|\d{1,3}$|\d*\.\d+$|self\.|os\.|args\.|cfg\.|config\."
    r"|(?![A-Za-z0-9/+=]{40}$)(?:(?:~|\.{1,2})/|/[a-z][\w.-]*/|[A-Za-z]:\\)",
    re.DOTALL,
)
"""A plain value, a name where a value is kept, a mark of a vocabulary, a call or a path (no AWS secret)."""
_RANDOM = re.compile(r"(?=\D*\d)(?:(?=.*[a-z])(?=.*[A-Z])(?:\S{20,}|(?=\D*\d\D*\d)\S{10,})|[0-9a-f]{20,})")
"""What a secret looks like: digits among letters of both cases, or a long hexadecimal number."""

_ESCAPE = re.compile(
    r"((?:\x1b|\\{1,16}(?:u001b|x1b|033|e))\[[0-9;]*[A-Za-z]|\\{1,16}(?:u[0-9a-fA-F]{4}|[nrt\"'])|\\\\)"
)
"""An order to a terminal, or a letter as JSON and Python write it out."""

_FLAG = re.compile(r"--.*|-[A-Za-z]\d*|-[a-z][a-z_.-]*(?:=.*)?", re.DOTALL)
"""A word that is the next option, no value that begins with a dash."""

_NAMED = re.compile(
    r"(?<![\w.-])(?P<name>(?:(?:api|access|secret|auth)[ ])?-{0,2}[A-Za-z_][\w.-]{0,99})(?:(?P<sure>"
    r"[\"']?\]?[ \t]{0,40}(?:=>|:=|:(?!//)|=)[ \t]{0,40}"
    r"|>(?=[^<>\n]+</)"
    r"|[\"']?(?:</\w+>)?[\s,]{0,60}[<\"']?value[\"']?[>:=][ \t]*"
    r")|[\"'],[ \t]*(?=[\"'])|[ \t]+(?:[|│┃][ ]*|(?:is|was)[: ]+)?)",
    re.IGNORECASE,
)
"""Stands before a value: `name=`, `"name": `, `<name>`, `"name", "value": `; less sure, a comma or blanks."""
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
"""A value, of YAML maybe on the next line; a text that was cut off may lack the closing quote."""

_TOKENS = _words(
    """
    hf_ gho_ ghp_ ghs_ ghu_ ghr_ github_pat_ glpat- glrt- gldt- glptt- glcbt- sk- sk_live_ sk_test_ rk_live_
    rk_test_ gsk_ r8_ xai- pplx- tvly- rpa_ nvapi- jina_ lsv2_pt_ lsv2_sk_ pcsk_ wandb_v1_ npm_ pypi-
    rubygems_ dckr_pat_ dckr_oat_ AKIA ASIA AIza ya29. GOCSPX- dop_v1_ doo_v1_ dor_v1_ dapi hvs. hvb. hvr.
    xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- SG. shpat_ shpca_ shppa_ shpss_ whsec_ sq0atp-
    sq0csp- lin_api_ ntn_ figd_ phx_ glsa_ sntrys_ sntryu_ ATATT3 PMAK- pul- tskey- ops_eyJ AGE-SECRET-KEY-
    """
)
"""First letters of tokens that their makers chose to make them recognisable."""
_TOOL = r"(?:\s[^\n|;]{0,200})?\s"
_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        # In an address, where a port is no password and a name alone is in some a user or a container.
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
        # By what it looks like itself.
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
    """What is known to be secret of one command and its environment."""

    values: tuple[str, ...] = ()
    """In every form in which a text may hold them."""

    def masked(self, text: str) -> str:
        """Return a text without them, and without whatever else shows by name, place or shape."""
        kept: list[str] = []
        after = 0
        for start, end in sorted(self.places(text)):
            if start > after or not kept:
                kept += [text[after:start], MASK]
            after = max(after, end)
        return "".join([*kept, text[after:]])

    def with_texts(self, texts: Iterable[str]) -> "Secrets":
        """Return these and those that stand under a name of theirs in texts, such as config files."""
        found = [value for text in texts for value in _values_in(text)]
        return Secrets(_forms([*self.values, *found]))

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where secrets begin and end in a text."""
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
    """Return the secrets of a command and of the variables whose names say that they hold one."""
    variables = [f"{name}={value}" for name, value in (environment or {}).items()]
    return Secrets(_forms([value for _, found in _of_words([*variables, *words]) for value in found]))


def masked_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command with each secret replaced by the mask."""
    return tuple(word for word, _ in _of_words(words))


def masked_text(text: str) -> str:
    """Return a text without secrets that show by their name, their place or their shape."""
    return Secrets().masked(text)


def has_mask(words: Iterable[str]) -> bool:
    """Return whether a command has lost a secret to the mask."""
    return any(MASK in word for word in words)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return whether a flag, variable or key of this name holds a secret."""
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
    """Yield each word masked, with the secrets that it had."""
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
    """Return a text as it is read, and where its pieces end, there and in the text."""
    pieces = _ESCAPE.split(text)
    read = [_letter(piece) if at % 2 else piece for at, piece in enumerate(pieces)]
    return "".join(read), [0, *accumulate(map(len, read))], [0, *accumulate(map(len, pieces))]


def _letter(escape: str) -> str:
    """Return what an escape stands for, an order to a terminal for nothing."""
    letter = escape.lstrip("\\") or "\\"
    return "" if "[" in escape else f"\\{letter}".encode().decode("unicode_escape")


def _values_in(text: str) -> list[str]:
    return [text[start:end] for start, end in Secrets().places(text)]


def _named(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the values of secrets' names stand."""
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
    """Return what stands behind a name: a value, or those of a list."""
    if listed := _LIST.match(text, at):
        return _VALUE.finditer(text, listed.start() + 1, listed.end())
    return filter(None, [_VALUE.match(text, at)])


def _forms(values: Sequence[str]) -> tuple[str, ...]:
    """Return secrets as they are and as addresses and texts of JSON write them."""
    forms = {form for value in values for form in (value, value.strip(), quote(value, safe=""))}
    forms |= {_read(form)[0] for value in values for form in (value, json.dumps(value)[1:-1])}
    return tuple(sorted(form for form in forms if len(form) >= _MIN_KNOWN))
