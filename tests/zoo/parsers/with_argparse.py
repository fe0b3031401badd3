"""argparse, as timm, YOLOv5 and the examples of PyTorch use it: two parsers, short flags, switches."""

import argparse

from small_loop import train

first = argparse.ArgumentParser(add_help=False)
first.add_argument("-c", "--config")
known, rest = first.parse_known_args()

parser = argparse.ArgumentParser()
parser.add_argument("--batchSize", "-b", type=int, default=16)
parser.add_argument("-j", "--jobs", type=int, default=0)
parser.add_argument("--lr-base", dest="lr", type=float, default=0.05)
parser.add_argument("--amp", action="store_true")
parser.add_argument("--no-pin-mem", action="store_false", dest="pin_mem")
parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=False)
parser.add_argument("--dtype", choices=["float16", "bfloat16"], default="bfloat16")
parser.add_argument("--api-key", default="sk-12345")
parser.add_argument("-v", "--verbose", action="count", default=0)
if known.config:
    parser.set_defaults(batchSize=int(known.config))
options = parser.parse_args(rest)
train(options.batchSize, options.jobs, options.lr, options.dtype if options.amp else None)
