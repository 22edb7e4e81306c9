"""Run as a process of its own: asks a server's approvals socket for its questions, or answers one.

`python approvals_guest.py SOCKET [ID CHOICE]` prints what came back, as JSON. It is no part of the
command line on purpose: what the command refuses to do, a model's own script would try.
"""

import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path


def main() -> None:
    path, *answer = sys.argv[1:]
    request = {"want": "list"}
    if answer:
        request = {"want": "answer", "id": answer[0], "choice": answer[1]}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        os.chdir(Path(path).parent)  # the whole of it may be too long for a socket
        connection.connect(Path(path).name)
        with suppress(BrokenPipeError):  # turned away already; the reason has been sent
            connection.sendall(json.dumps(request).encode() + b"\n")
        reply = connection.makefile("rb").readline()
    sys.stdout.write(reply.decode())


if __name__ == "__main__":
    main()
