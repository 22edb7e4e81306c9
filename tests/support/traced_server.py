"""Run `mcp-dispatch` and record which files of the package run between two signals.

SIGUSR1 starts to record and prints `recording` on standard error. SIGUSR2 stops and prints
`recorded` and the files, relative to the package, as one line of JSON.
"""

import json
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import mcp_dispatch

PACKAGE = str(Path(mcp_dispatch.__file__).parent)


class Recorder:
    def __init__(self) -> None:
        self._recording = False
        self._files: set[str] = set()

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._recording and event == "call":
            file = frame.f_code.co_filename
            if file.startswith(PACKAGE):
                self._files.add(file[len(PACKAGE) + 1 :])

    def start(self, number: int, frame: FrameType | None) -> None:
        self._files.clear()
        self._recording = True
        sys.stderr.write("recording\n")

    def stop(self, number: int, frame: FrameType | None) -> None:
        self._recording = False
        sys.stderr.write(f"recorded {json.dumps(sorted(self._files))}\n")


def main() -> None:
    recorder = Recorder()
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)
    signal.signal(signal.SIGUSR1, recorder.start)
    signal.signal(signal.SIGUSR2, recorder.stop)
    from mcp_dispatch.cli import main as run

    run()


if __name__ == "__main__":
    main()
