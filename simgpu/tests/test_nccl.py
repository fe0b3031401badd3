"""The simulated NCCL, as torch.distributed sees it: sums, times, and what happens when a rank is gone."""

import json
from pathlib import Path

from gpu_environment import on_both_torches

from simgpu.machine import SimulatedGpu

RANK = """
import functools, json, os, signal, sys, time, torch, torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
"""
COLLECTIVES = (
    RANK
    + """
ranks = dist.get_world_size()
sources = [torch.Generator().manual_seed(i) for i in range(ranks)]
wrong = []

def check(name, got, wanted):
    if not torch.equal(got.cpu(), wanted):
        wrong.append(name)

def added(parts):
    return functools.reduce(torch.add, [part.float() for part in parts])

for dtype in (torch.float32, torch.bfloat16):
    for count in (1, 300_001):
        parts = [torch.randn(count, generator=source).to(dtype) for source in sources]
        for op, wanted in {"SUM": added(parts), "AVG": added(parts) / ranks}.items():
            own = parts[rank].cuda()
            dist.all_reduce(own, op=getattr(dist.ReduceOp, op))
            check(f"{op} {dtype} {count}", own, wanted.to(dtype))

count = 200_003
parts = [torch.randn(count, generator=source) for source in sources]
wide = [torch.randn(ranks * count, generator=source) for source in sources]
own, all_of_them = torch.empty(count, device="cuda"), torch.empty(ranks * count, device="cuda")
dist.all_gather_into_tensor(all_of_them, parts[rank].cuda())
check("all_gather", all_of_them, torch.cat(parts))
dist.reduce_scatter_tensor(own, wide[rank].cuda())
check("reduce_scatter", own, added(wide)[rank * count:][:count])
own = parts[rank].cuda()
dist.broadcast(own, ranks - 1)
check("broadcast", own, parts[-1])
layer = torch.nn.Linear(700, 300).cuda()
model = torch.nn.parallel.DistributedDataParallel(layer, device_ids=[rank])
parts = [torch.randn(300, 700, generator=source) for source in sources]
own = parts[rank].cuda()
layer.weight.register_hook(lambda gradient: own)
loss = model(torch.ones(4, 700, device="cuda")).sum()
loss.backward()
check("gradient", layer.weight.grad, added([part * (1 / ranks) for part in parts]))
dist.destroy_process_group()
with open(os.path.join(sys.argv[1], str(rank)), "w") as file:
    json.dump(wrong, file)
"""
)
LATE = (
    RANK
    + """
big = torch.zeros(10_000_000, device="cuda")
dist.all_reduce(big)
torch.cuda.synchronize()
begin = time.monotonic_ns()
if rank == 1:
    time.sleep(0.2)
dist.all_reduce(big)
torch.cuda.synchronize()
with open(os.path.join(sys.argv[1], str(rank)), "w") as file:
    json.dump(begin, file)
dist.destroy_process_group()
"""
)
GONE = (
    RANK
    + """
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends the other rank, here before it has answered
own = torch.ones(4, device="cuda")
dist.all_reduce(own)
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    dist.all_reduce(own)
except RuntimeError as error:
    with open(os.path.join(sys.argv[1], "0"), "w") as file:
        json.dump(str(error), file)
os._exit(1)
"""
)


def run_ranks(gpu: SimulatedGpu, folder: Path, code: str, devices: str = "a10g,a10g") -> list[object]:
    """What the ranks, one for each device, wrote about themselves; for one that wrote nothing None."""
    script, answers = folder / "rank.py", folder / "answers"
    script.write_text(code, encoding="utf-8")
    answers.mkdir()
    ranks = devices.count(",") + 1
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    gpu.run([*launch, script, answers], devices, more={"OMP_NUM_THREADS": "1"})
    wrote = [answers / str(rank) for rank in range(ranks)]
    return [json.loads(one.read_text(encoding="utf-8")) if one.exists() else None for one in wrote]


@on_both_torches
def test_collectives_compute(simulated_gpu: SimulatedGpu, tmp_path: Path) -> None:
    assert run_ranks(simulated_gpu, tmp_path, COLLECTIVES, devices="h100-sxm,a10g,a10g") == [[], [], []]
    assert not [one.name for one in simulated_gpu.state.iterdir() if one.name.startswith("nccl-")]


def test_a_collective_begins_with_the_last_rank_and_takes_the_links_time(
    simulated_gpu: SimulatedGpu, tmp_path: Path
) -> None:
    begins = run_ranks(simulated_gpu, tmp_path, LATE, devices="a10g:pinned_bytes_per_s=10G,t4")
    sums = [one for one in simulated_gpu.trace() if one.name.startswith("ncclDevKernel_AllReduce_Sum_f32")]
    late = [
        next(one for one in sums if one.device == rank and one.begin_ns > begins[rank]) for rank in (0, 1)
    ]
    assert all(one.begin_ns >= begins[1] + 0.2e9 for one in late)
    link_s = 40_000_000 / 10e9  # of two ranks' sum each link carries it once; the A10G's is the slower here
    assert {round(one.duration_ns / 1e6, 3) for one in late} == {round(1e3 * link_s + 0.009, 3)}


def test_a_wait_for_a_rank_that_was_killed_ends(simulated_gpu: SimulatedGpu, tmp_path: Path) -> None:
    assert "has died" in str(run_ranks(simulated_gpu, tmp_path, GONE)[0])
