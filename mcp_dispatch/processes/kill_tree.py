"""End process groups and processes with a run's marker; as a script, the watchdog.

The watchdog runs as `python -I -S kill_tree.py` and must start within milliseconds, so this module
imports only small modules of the standard library.
"""
# ruff: noqa: PTH123, PTH208 - importing pathlib would double the time the watchdog takes to start.

import os
import signal
import sys
import time

MARKER_VARIABLE = "MCP_DISPATCH_RUN"
WATCHDOG_GRACE_SECONDS = 2.0
KILL_TIMEOUT_SECONDS = 1.0
POLL_SECONDS = 0.01


def build_run_marker(run_id: str) -> bytes:
    """Return the marker in the environment of every child of this run."""
    return f"{MARKER_VARIABLE}={run_id}.".encode()


def build_child_marker(run_id: str, number: int) -> bytes:
    """Return the marker in the environment of one child and its descendants."""
    return f"{MARKER_VARIABLE}={run_id}.{number}\0".encode()


def terminate(groups: set[int], marker: bytes, grace: float) -> None:
    """Send TERM, and KILL after `grace` seconds, to the groups and, on Linux, to marked processes."""
    asked: set[int] = set()
    deadline = time.monotonic() + grace
    while (living := find_processes(groups, marker)) and time.monotonic() < deadline:
        send_term(living - asked)
        asked |= living
        time.sleep(POLL_SECONDS)
    deadline = time.monotonic() + KILL_TIMEOUT_SECONDS
    while (living := find_processes(groups, marker)) and time.monotonic() < deadline:
        # The group as a whole, too: a member that forks between search and kill would escape.
        targets = living | {-group for group in groups}
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for target in targets:
                send_signal(target, number)
        time.sleep(POLL_SECONDS)


def send_term(targets: set[int]) -> None:
    """Send TERM to all targets while they are stopped, so that a shell whose command ends first does
    not start the next one.
    """
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT):
        for target in targets:
            send_signal(target, number)


def send_signal(target: int, signal_number: int) -> bool:
    """Send a signal to a process or (negative) a group; return whether it exists."""
    try:
        os.kill(target, signal_number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def is_group_alive(group: int) -> bool:
    return send_signal(-group, 0)


def is_leaderless(group: int) -> bool:
    """Return whether no process has the id of the group.

    The system does not reuse the id of a group with members, so a process that has it means that
    the group is gone and the id belongs to an unrelated process.
    """
    try:
        os.kill(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def find_processes(groups: set[int], marker: bytes) -> set[int]:
    """Return process ids on Linux, elsewhere the living groups as negative numbers."""
    if sys.platform != "linux":
        return {-group for group in groups if is_group_alive(group)}
    pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
    return {pid for pid in pids if _is_target(pid, groups, marker)}


def _is_target(pid: int, groups: set[int], marker: bytes) -> bool:
    # After the name, which may hold anything: state, parent, group, session.
    state, _, group, session = (_read_proc(pid, "stat").rpartition(b")")[2].split() + [b"0"] * 4)[
        :4
    ]
    if state in {b"0", b"Z", b"X"}:
        return False
    if int(group) in groups or int(session) in groups:
        return True
    return b"\0" + marker in b"\0" + _read_proc(pid, "environ")


def _read_proc(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def read_groups(pipe: int) -> tuple[str, set[int]]:
    """Return the run id and its living groups once the server has closed the pipe.

    The first line is the run id. `+group` follows when a group starts, `~group` when its leader has
    ended and other members may live, `-group` when it has ended.
    """
    led: set[int] = set()
    left: set[int] = set()
    with open(pipe, "rb") as lines:
        run = lines.readline().decode().strip()
        for line in lines:
            group = int(line[1:])
            led.discard(group)
            left.discard(group)
            if line.startswith(b"+"):
                led.add(group)
            elif line.startswith(b"~"):
                left.add(group)
    return run, led | {group for group in left if is_leaderless(group)}


def main() -> None:
    # The server starts the watchdog with these blocked; this is for a start by hand.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    run, groups = read_groups(sys.stdin.fileno())
    if run:
        terminate(groups, build_run_marker(run), WATCHDOG_GRACE_SECONDS)


if __name__ == "__main__":
    main()
