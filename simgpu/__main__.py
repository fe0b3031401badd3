"""`python -m simgpu`."""

import signal
import sys

from simgpu.cli import main

if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `python -m simgpu devices | head` ends without a word
    sys.exit(main(sys.argv[1:]))
