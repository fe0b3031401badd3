"""Reading what libraries say of themselves: real ones, made by the compiler."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from simgpu.elf import ElfFile, Wanted
from simgpu.errors import SimgpuError

GIVER = """
int given(void) { return 1; }
static int hidden(void) { return 2; }
int more(void) { return hidden(); }
"""
TAKER = """
int given(void);
int without_version(void);
__attribute__((weak)) int absent(void);
const char *names[] = {"cuMemCreate", "cuMem create", "nvmlInit_v2"};
int taken(void) { return given() + without_version() + (absent ? 1 : 0); }
"""


def compiled(folder: Path, name: str, source: str, *flags: str) -> Path:
    made = folder / name
    (folder / f"{name}.c").write_text(source)
    soname = f"-Wl,-soname,{name}"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", made, made.with_name(f"{name}.c"), soname, *flags], check=True
    )
    return made


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("libraries")
    (folder / "map").write_text("GIVER_2.0 { global: *; };\n")
    giver = compiled(folder, "libgiver.so.7", GIVER, f"-Wl,--version-script={folder / 'map'}")
    other = compiled(folder, "libother.so.1", "int without_version(void) { return 3; }\n")
    taker = compiled(folder, "libtaker.so", TAKER, str(giver), str(other))
    return {"giver": giver, "other": other, "taker": taker}


def test_wanted_symbols_come_with_version_and_library(libraries: dict[str, Path]) -> None:
    with ElfFile(libraries["taker"]) as library:
        wanted = set(library.wanted())
    assert Wanted("given", "GIVER_2.0", "libgiver.so.7") in wanted
    assert Wanted("without_version", None, None) in wanted
    assert "taken" not in {one.name for one in wanted}


def test_defined_are_the_names_that_others_can_link_to(libraries: dict[str, Path]) -> None:
    with ElfFile(libraries["giver"]) as library:
        assert {"given", "more"} <= library.defined()
        assert "hidden" not in library.defined() | library.defined(".symtab")
    with ElfFile(libraries["taker"]) as library:
        assert "given" not in library.defined()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:4] + b"\x01" + content[5:],
        lambda content: content[: len(content) // 2],
        lambda content: content[:0x28] + b"\xff" * 8 + content[0x30:],
    ],
    ids=["empty", "32 bits", "half", "table outside"],
)
def test_a_damaged_file_is_refused_by_name(
    libraries: dict[str, Path], tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "libdamaged.so"
    path.write_bytes(damage(libraries["taker"].read_bytes()))
    with pytest.raises(SimgpuError, match=r"libdamaged\.so"), ElfFile(path) as library:
        library.wanted()
