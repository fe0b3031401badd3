"""argparse with a subcommand for training."""

import argparse

from small_loop import train

parser = argparse.ArgumentParser()
verbs = parser.add_subparsers(dest="verb")
fit = verbs.add_parser("fit")
fit.add_argument("--bs", type=int, default=16)
fit.add_argument("--learning_rate", type=float, default=0.05)
verbs.add_parser("test").add_argument("--bs", type=int, default=1)
options = parser.parse_args()
train(options.bs, lr=options.learning_rate)
