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


def mount(number: int, parent: int, point: str | PurePosixPath) -> Mount:
    point = PurePosixPath(point)
    return Mount(number, parent, f"0:{number}", PurePosixPath("/"), point, "ext4", "/dev/sda1", "rw")


def shown(path: str, mounts: list[Mount]) -> int | None:
    found = mount_under(PurePosixPath(path), mounts)
    return None if found is None else found.id


@given(root=paths, point=paths, source=names)
def test_every_name_is_read_back_as_the_kernel_wrote_it(
    tmp_path_factory: pytest.TempPathFactory, root: PurePosixPath, point: PurePosixPath, source: str
) -> None:
    source_word = escaped(PurePosixPath(source))
    places = f"{escaped(root)} {escaped(point)}"
    line = f"36 35 98:0 {places} rw,noatime shared:1 master:2 - ext3 {source_word} rw,a=b"
    (found,) = listed(tmp_path_factory.mktemp("root"), line)
    assert found == Mount(36, 35, "98:0", root, point, "ext3", source, "rw,a=b")


@given(points=st.lists(paths, unique=True, max_size=8), path=paths)
def test_the_longest_mount_point_that_holds_a_path_shows_there(
    points: list[PurePosixPath], path: PurePosixPath
) -> None:
    mounts = [mount(1, 0, "/")]
    for number, point in enumerate(sorted({*points} - {PurePosixPath("/")}), start=2):
        above = mount_under(point, mounts)
        assert above is not None
        mounts.append(mount(number, above.id, point))
    held = [held for held in mounts if path == held.point or held.point in path.parents]
    assert mount_under(path, mounts) == max(held, key=lambda one: len(one.point.parts))


def test_a_mount_over_another_hides_what_was_mounted_below() -> None:
    mounts = [mount(1, 0, "/"), mount(2, 1, "/data/old"), mount(3, 1, "/data")]
    assert shown("/data/old/x", mounts) == 3


def test_of_two_mounts_at_one_point_the_later_one_shows() -> None:
    stacked = [mount(1, 0, "/"), mount(2, 1, "/data"), mount(3, 2, "/data")]
    assert shown("/data/x", stacked) == 3


@pytest.mark.parametrize(
    "mounts",
    [
        [mount(1, 7, "/data"), mount(2, 8, "/")],
        [mount(1, 2, "/"), mount(2, 1, "/data")],
        [mount(1, 1, "/"), mount(1, 1, "/data")],
    ],
    ids=["two tops", "a circle", "one number twice"],
)
def test_a_table_without_a_way_down_still_answers(mounts: list[Mount]) -> None:
    assert shown("/data/x", mounts) in (1, 2)
    assert shown("relative", mounts) is None


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="needs /proc")
def test_this_machine_shows_what_stat_tells() -> None:
    found = mount_under(PurePosixPath("/proc/self"), mounts_of(Path("/")))
    assert found is not None
    assert (found.filesystem, found.point) == ("proc", PurePosixPath("/proc"))
