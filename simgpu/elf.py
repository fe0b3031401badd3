"""What a shared library says of itself: what it needs, what it wants of others, what it defines.

A reader of 64-bit little-endian ELF for as much as the build asks, so that it needs no binutils. Only the
tables are read, through a memory map: torch's largest library has 1 GB.
"""

import mmap
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from simgpu.errors import SimgpuError

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_DT_NEEDED = 1
_SHN_UNDEF = 0
_STB_LOCAL, _STV_HIDDEN, _STV_INTERNAL = 0, 2, 1


@dataclass(frozen=True)
class Wanted:
    """A symbol that a library wants of another one."""

    name: str
    version: str | None
    """The version it asks for, None when it asks for none."""
    library: str | None
    """The soname that is to give that version, None without a version."""


@dataclass(frozen=True)
class _Section:
    name: str
    offset: int
    size: int
    link: int


class ElfFile:
    """One library or object file, open for reading; a context manager.

    Raises:
        SimgpuError: The file is no 64-bit little-endian ELF file, or its tables lie outside it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            if file.seek(0, 2) < 64:
                raise SimgpuError(f"{path} is too short for a library")
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self._bytes[:6] != b"\x7fELF\x02\x01":
            self._bytes.close()
            raise SimgpuError(f"{path} is no 64-bit little-endian ELF file")
        try:
            with self._readable("table of sections"):
                self._sections = self._read_sections()
        except SimgpuError:
            self._bytes.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bytes.close()

    def needed(self) -> list[str]:
        """The sonames of the libraries it is linked with."""
        section = self._find(".dynamic")
        if section is None:
            return []
        with self._readable(section.name):
            entries = _DYNAMIC.iter_unpack(self._content(section))
            strings = self._strings(section.link)
            return [_text(strings, value) for tag, value in entries if tag == _DT_NEEDED]

    def wanted(self) -> list[Wanted]:
        """What it wants of other libraries, as its dynamic symbols say."""
        section = self._find(".dynsym")
        if section is None:
            return []
        found = []
        with self._readable(section.name):
            strings = self._strings(section.link)
            versions = self._versions_wanted()
            table = self._find(".gnu.version")
            numbers = struct.unpack(f"<{table.size // 2}H", self._content(table)) if table else ()
            for place, (name, _, _, home, _, _) in enumerate(_SYMBOL.iter_unpack(self._content(section))):
                if home == _SHN_UNDEF and name:
                    number = numbers[place] & 0x7FFF if numbers else 0
                    version, library = versions.get(number, (None, None))
                    found.append(Wanted(_text(strings, name), version, library))
        return found

    def defined(self, table: str = ".dynsym") -> set[str]:
        """The names that others can link to; `table` is `.symtab` for an object file."""
        section = self._find(table)
        if section is None:
            return set()
        with self._readable(section.name):
            strings = self._strings(section.link)
            return {
                _text(strings, name)
                for name, info, other, home, _, _ in _SYMBOL.iter_unpack(self._content(section))
                if home != _SHN_UNDEF and name and info >> 4 != _STB_LOCAL
                and other & 3 not in (_STV_HIDDEN, _STV_INTERNAL)
            }  # fmt: skip

    def literals(self, pattern: str) -> set[str]:
        """The constant strings that match the whole of the pattern: names for dlsym."""
        section = self._find(".rodata")
        if section is None:
            return set()
        matcher = re.compile(rb"\0(" + pattern.encode() + rb")(?=\0)")
        return {match[1].decode() for match in matcher.finditer(b"\0" + self._content(section))}

    def _versions_wanted(self) -> dict[int, tuple[str, str]]:
        """Version number in this file -> version and the library that gives it."""
        section = self._find(".gnu.version_r")
        if section is None:
            return {}
        strings = self._strings(section.link)
        content = self._content(section)
        versions = {}
        for at, (_, _, file, first, _) in _chain(content, 0, struct.Struct("<HHIII")):
            for _, (_, _, number, name, _) in _chain(content, at + first, struct.Struct("<IHHII")):
                versions[number] = (_text(strings, name), _text(strings, file))
        return versions

    def _read_sections(self) -> list[_Section]:
        offset = struct.unpack_from("<Q", self._bytes, 0x28)[0]
        size, count, names_at = struct.unpack_from("<HHH", self._bytes, 0x3A)
        if size != _SECTION.size:
            raise ValueError(f"entries of {size} bytes")
        headers = [_SECTION.unpack_from(self._bytes, offset + place * size) for place in range(count)]
        if not headers:
            return []
        names = self._bytes[headers[names_at][4] :][: headers[names_at][5]]
        return [_Section(_text(names, head[0]), head[4], head[5], head[6]) for head in headers]

    @contextmanager
    def _readable(self, what: str) -> Iterator[None]:
        """Say of which file and part it is that a number leads out of it."""
        try:
            yield
        except (struct.error, ValueError, IndexError, OverflowError) as error:
            raise SimgpuError(f"{self.path} has no readable {what} ({error}): is the file whole?") from error

    def _find(self, name: str) -> _Section | None:
        return next((section for section in self._sections if section.name == name), None)

    def _content(self, section: _Section) -> bytes:
        content = self._bytes[section.offset : section.offset + section.size]
        if len(content) != section.size:
            raise SimgpuError(f"{self.path} ends within its section {section.name}: is the file whole?")
        return content

    def _strings(self, place: int) -> bytes:
        return self._content(self._sections[place])


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()


def _chain(content: bytes, at: int, record: struct.Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Records whose last field is the distance to the next one, 0 for the last."""
    while True:
        fields = record.unpack_from(content, at)
        yield at, fields
        if fields[-1] == 0:
            return
        at += fields[-1]
