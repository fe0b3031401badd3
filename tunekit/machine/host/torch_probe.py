"""Prints which torch this Python has, as one JSON object on the last line of its output.

A standalone script for the training environment: Python 3.9 or newer, torch 2.1 or newer, no tunekit.
A query that raises is null; torch's warnings and errors are joined in "problem".
"""

from __future__ import annotations

import json
import os
import platform
import sys
import warnings


def answer(question, *refused):
    """Return the result of `question`, or None if it raises; the error is then appended to `refused`."""
    try:
        return question()
    except Exception as error:
        for texts in refused:
            texts.append(one_line(error))
        return None


def one_line(message):
    """Return a message with line breaks and runs of whitespace replaced by single spaces."""
    return " ".join(str(message).split())


def text(value):
    """Return a value as text; None stays None."""
    return None if value is None else str(value)


def cuda_device(torch, index):
    """Return torch's facts about one CUDA or ROCm GPU."""
    properties = torch.cuda.get_device_properties(index)
    is_rocm = torch.version.hip is not None
    return {
        "type": "cuda",
        "name": str(properties.name),
        "memory_bytes": answer(lambda: int(properties.total_memory)) or None,
        # ROCm's numbers look like a CUDA compute capability but are not one.
        "compute_capability": None if is_rocm else "%d.%d" % (properties.major, properties.minor),
        "uuid": answer(lambda: str(properties.uuid)),
    }


def cuda_devices(torch, problems):
    """Return the CUDA or ROCm GPUs; the reason why there are none is appended to `problems`."""
    if torch.version.cuda is None and torch.version.hip is None:
        return []
    if not answer(torch.cuda.is_available, problems):
        answer(torch.cuda.init, problems)
        return []
    count = answer(torch.cuda.device_count, problems) or 0
    devices = [answer(lambda: cuda_device(torch, index), problems) for index in range(count)]
    return [device for device in devices if device is not None]


def build_of(torch):
    """Return the facts about this torch build and the GPUs it sees."""
    problems = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        devices = cuda_devices(torch, problems)
    said = [one_line(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    said += [problem for problem in problems if not any(problem in warning for warning in said)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of torch deprecate the queries about TF32
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
    """Print the JSON object."""
    here = os.path.dirname(os.path.abspath(__file__))
    # The modules next to this script are tunekit's and must not shadow other modules.
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
