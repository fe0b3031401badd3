"""What torch writes from its compiled part goes to the trial's folder as well."""

from pathlib import Path

import pytest
from probing import picture, run_guarded

pytestmark = pytest.mark.real

NAMES = (
    *("writer.pt", "module.pt", "function.pt", "inner.pt", "package.pt", "trace.json", "trace.json.gz"),
    *("mapped.bin", "storage.bin", "handle.pt"),
)
SCRIPT = """
import gzip, json, os, torch
module = torch.jit.script(torch.nn.Linear(2, 2))
double = torch.jit.trace(lambda x: x * 2, torch.ones(1))
writer = torch._C.PyTorchFileWriter("writer.pt")
writer.write_record("name", b"data", 4)
writer.write_end_of_file()
module.save("module.pt"); double.save("function.pt"); module._c.save("inner.pt")
with torch.package.PackageExporter("package.pt") as package: package.save_pickle("a", "b.pkl", [1])
with torch.profiler.profile() as profile: torch.ones(2)
profile.export_chrome_trace("trace.json")
with torch.profiler.profile() as profile: torch.ones(2)
profile.export_chrome_trace("trace.json.gz")
torch.from_file("mapped.bin", shared=True, size=4, dtype=torch.uint8).fill_(7)
torch.UntypedStorage.from_file("storage.bin", True, 4).fill_(8)
with open("handle.pt", "wb") as stream: torch.save([1], stream)
print(torch.package.PackageImporter("package.pt").load_pickle("a", "b.pkl"), torch.load("handle.pt"))
print(torch.jit.load("module.pt")(torch.ones(1, 2)).shape, torch.jit.load("inner.pt").code != "")
print(list(open("mapped.bin", "rb").read()), list(open("storage.bin", "rb").read()))
print("traceEvents" in json.load(open("trace.json")), "traceEvents" in json.load(gzip.open("trace.json.gz")))
print(sorted(name for name in os.listdir(".") if os.path.getsize(name) < 4))
"""
SEEN = [
    "[1] [1]",
    "torch.Size([1, 2]) True",
    "[7, 7, 7, 7] [8, 8, 8, 8]",
    "True True",
    "[]",
]


@pytest.mark.parametrize("names", [NAMES, ()], ids=["over old files", "new files"])
def test_every_writer_writes_in_the_trials_folder(names: tuple[str, ...], tmp_path: Path) -> None:
    user = tmp_path / "user"
    user.mkdir()
    for name in names:
        (user / name).write_text("old")
    old = picture(user)
    lines, _ = run_guarded(user, tmp_path / "trial", SCRIPT)
    assert lines == SEEN
    assert picture(user) == old
