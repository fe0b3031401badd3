from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.machine.host.mounts import Mount, mount_under, mounts_of

names = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8
).filter(lambda name: name not in (".", ".."))
paths = st.lists(names, max_size=4).map(lambda parts: PurePosixPath("/", *parts))


def escaped(path: PurePosixPath) -> str:
    """Write a path as the kernel does (seq_path)."""
    return "".join(f"\\{ord(letter):03o}" if letter in " \t\n\\#" else letter for letter in str(path))


def listed(tmp_path: Path, *lines: str) -> list[Mount]:
    (tmp_path / "proc/self").mkdir(parents=True, exist_ok=True)
    (tmp_path / "proc/self/mountinfo").write_bytes("".join(f"{line}\n" for line in lines).encode())
    return mounts_of(tmp_path)


def mount(number: int, point: str) -> Mount:
    return Mount(f"0:{number}", PurePosixPath("/"), PurePosixPath(point), "ext4", "/dev/sda1", "rw")


@given(root=paths, point=paths, source=names)
def test_every_name_is_read_back_as_the_kernel_wrote_it(
    tmp_path_factory: pytest.TempPathFactory, root: PurePosixPath, point: PurePosixPath, source: str
) -> None:
    source_word = escaped(PurePosixPath(source))
    places = f"{escaped(root)} {escaped(point)}"
    line = f"36 35 98:0 {places} rw,noatime shared:1 master:2 - ext3 {source_word} rw,a=b"
    (found,) = listed(tmp_path_factory.mktemp("root"), line)
    assert found == Mount("98:0", root, point, "ext3", source, "rw,a=b")


@pytest.mark.parametrize(
    ("path", "device"),
    [("/data/x", "0:4"), ("/data/old/x", "0:2"), ("/dataset", "0:1"), ("relative", None)],
)
def test_the_longest_and_of_equals_the_later_mount_shows(path: str, device: str | None) -> None:
    mounts = [mount(1, "/"), mount(2, "/data/old"), mount(3, "/data"), mount(4, "/data")]
    found = mount_under(PurePosixPath(path), mounts)
    assert (found and found.device) == device


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="needs /proc")
def test_this_machine_shows_what_stat_tells() -> None:
    found = mount_under(PurePosixPath("/proc/self"), mounts_of(Path("/")))
    assert found is not None
    assert (found.filesystem, found.point) == ("proc", PurePosixPath("/proc"))
