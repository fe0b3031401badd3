"""Tells what torch this Python has, as one JSON object on the last line of its output.

A bare script that runs in the training environment: Python 3.9 or newer, torch 2.1 or newer, no tunekit.
Whatever torch refuses to answer is null; its warnings are the problem.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import warnings


def answer(question, *refused):
    """Return what a question gives, None if torch refuses it; the refusal goes to `refused`."""
    try:
        return question()
    except Exception as error:
        for texts in refused:
            texts.append(one_line(error))
        return None


def one_line(message):
    """Return a message without its line breaks and runs of blanks."""
    return " ".join(str(message).split())


def text(value):
    """Return a value as text, None as None."""
    return None if value is None else str(value)


def cuda_device(torch, index):
    """Return what torch knows of one GPU of CUDA or ROCm."""
    properties = torch.cuda.get_device_properties(index)
    is_rocm = torch.version.hip is not None
    return {
        "type": "cuda",
        "name": str(properties.name),
        "memory_bytes": answer(lambda: int(properties.total_memory)) or None,
        # ROCm's numbers look like a capability of CUDA and are none.
        "compute_capability": None if is_rocm else "%d.%d" % (properties.major, properties.minor),
        "uuid": answer(lambda: str(properties.uuid)),
    }


def cuda_devices(torch, problems):
    """Return the GPUs of CUDA or ROCm; why there are none goes to `problems`."""
    if torch.version.cuda is None and torch.version.hip is None:
        return []
    if not answer(torch.cuda.is_available, problems):
        answer(torch.cuda.init, problems)
        return []
    count = answer(torch.cuda.device_count, problems) or 0
    devices = [answer(lambda: cuda_device(torch, index), problems) for index in range(count)]
    return [device for device in devices if device is not None]


def build_of(torch):
    """Return the build's facts."""
    problems = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        devices = cuda_devices(torch, problems)
    said = [one_line(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    said += [problem for problem in problems if not any(problem in warning for warning in said)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer torch advises against the questions about TF32
        return {
            "python_version": platform.python_version(),
            "version": str(torch.__version__),
            "cuda_version": text(torch.version.cuda),
            "hip_version": text(getattr(torch.version, "hip", None)),
            "cudnn_version": text(answer(torch.backends.cudnn.version)),
            "architectures": answer(lambda: list(map(str, torch.cuda.get_arch_list()))) or [],
            "devices": devices,
            "threads": torch.get_num_threads(),
            "float32_matmul_precision": answer(torch.get_float32_matmul_precision),
            "problem": "; ".join(dict.fromkeys(said)) or None,
        }


def main():
    """Print the answer."""
    here = os.path.dirname(os.path.abspath(__file__))
    # The modules beside this script are tunekit's and must not shadow other modules.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    try:
        import torch
    except Exception as error:
        reply = {"absent": "%s: %s" % (type(error).__name__, one_line(error))}
    else:
        reply = build_of(torch)
    sys.stdout.write("\n" + json.dumps(reply) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
