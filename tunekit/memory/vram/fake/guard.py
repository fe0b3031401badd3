"""Lets a CPU-only build of torch run autograd on fake cuda tensors: a development check, never a user's path.

Such a build aborts where autograd asks for the device of a cuda tensor, because nobody has registered a
guard for it. Torch itself installs one that does nothing wherever it finds a device type without devices; so
an empty one is put where it looks, and torch replaces it. Known for Linux and torch 2.13 only.
"""

import atexit
import ctypes
from pathlib import Path

import torch

_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_HOOKS = "_ZN2at6detail12getCUDAHooksEv"
_CUDA = 1
"""Place of the device type in torch's registry."""
_VTABLE_ENTRIES = 66
_IS_BUILT, _HAS_CONTEXT = 2, 4
"""Places in the table of CUDAHooks' virtual functions, after its two destructors."""
_kept: list[object] = []


class NoFakeCuda(Exception):  # noqa: N818 - says what is the case
    """This build of torch can't be made to take fake cuda tensors."""


def allow_fake_cuda() -> None:
    """Make fake cuda tensors usable with autograd in this process; nothing to do for a CUDA build.

    Raises:
        NoFakeCuda: torch is of another version than this is known for.
    """
    if torch.backends.cuda.is_built():
        return
    if not torch.__version__.startswith("2.13."):
        raise NoFakeCuda(f"known for torch 2.13, not for {torch.__version__}")
    folder = Path(torch.__file__).parent / "lib"
    core, cpu = (ctypes.CDLL(str(folder / name)) for name in ("libc10.so", "libtorch_cpu.so"))
    try:
        _install_guard(core)
        _answer_as_built(cpu)
    except (AttributeError, ValueError) as error:
        raise NoFakeCuda(f"torch {torch.__version__} has no {error}") from error
    if torch.accelerator.current_accelerator() != torch.device("cuda"):
        raise NoFakeCuda("torch still takes the CPU for its accelerator")


def _install_guard(core: ctypes.CDLL) -> None:
    registry = (ctypes.c_void_p * 22).in_dll(core, _REGISTRY)
    if registry[_CUDA]:
        return
    zero = ctypes.CFUNCTYPE(ctypes.c_byte)(lambda: 0)
    table = (ctypes.c_void_p * 64)(*[ctypes.cast(zero, ctypes.c_void_p).value] * 64)
    guard = (ctypes.c_void_p * 1)(ctypes.addressof(table))
    _kept.extend((zero, table, guard))
    registry[_CUDA] = ctypes.addressof(guard)
    torch._C._ensureCUDADeviceGuardSet()
    if registry[_CUDA] == ctypes.addressof(guard):
        raise NoFakeCuda("torch did not install a guard of its own")


def _answer_as_built(cpu: ctypes.CDLL) -> None:
    """Have torch believe that it was built with CUDA, and that no context is open."""
    hooks = getattr(cpu, _HOOKS)
    hooks.restype = ctypes.c_void_p
    instance = ctypes.cast(hooks(), ctypes.POINTER(ctypes.c_void_p))
    before = instance[0]
    if before is None:
        raise NoFakeCuda("torch's CUDA hooks have no functions")
    word = ctypes.sizeof(ctypes.c_void_p)
    # Two entries lie before the functions: the offset to the top, and the type.
    entries = (ctypes.c_void_p * _VTABLE_ENTRIES)(
        *(ctypes.c_void_p * _VTABLE_ENTRIES).from_address(before - 2 * word)
    )
    yes, no = ctypes.CFUNCTYPE(ctypes.c_bool)(lambda: True), ctypes.CFUNCTYPE(ctypes.c_bool)(lambda: False)
    entries[2 + _IS_BUILT] = ctypes.cast(yes, ctypes.c_void_p).value
    entries[2 + _HAS_CONTEXT] = ctypes.cast(no, ctypes.c_void_p).value
    _kept.extend((entries, yes, no))
    instance[0] = ctypes.addressof(entries) + 2 * word
    atexit.register(instance.__setitem__, 0, before)  # else the process ends in a fault
