"""Ends process groups and whatever carries a run's marker; as a script, the watchdog itself.

The watchdog is started as `python -I -S sweep.py` and must be up within milliseconds: the standard
library's smallest modules only, and none of ours.
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
    """Found in the environment of every child of this run."""
    return f"{MARKER_VARIABLE}={run_id}.".encode()


def build_child_marker(run_id: str, number: int) -> bytes:
    """Found in the environment of one child and of what it started."""
    return f"{MARKER_VARIABLE}={run_id}.{number}\0".encode()


def terminate(groups: set[int], marker: bytes, grace: float) -> None:
    """TERM, and KILL after `grace` seconds, to the groups and, on Linux, to carriers of `mark`."""
    asked: set[int] = set()
    deadline = time.monotonic() + grace
    while (living := find_processes(groups, marker)) and time.monotonic() < deadline:
        send_term(living - asked)
        asked |= living
        time.sleep(POLL_SECONDS)
    deadline = time.monotonic() + KILL_TIMEOUT_SECONDS
    while (living := find_processes(groups, marker)) and time.monotonic() < deadline:
        # The group as one too: a member that forks between look and kill would get away.
        targets = living | {-group for group in groups}
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for target in targets:
                send_signal(target, number)
        time.sleep(POLL_SECONDS)


def send_term(targets: set[int]) -> None:
    """TERM to all of them at once: held still until each has it, so that a shell whose command
    ends first does not go on to the next one."""
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT):
        for target in targets:
            send_signal(target, number)


def send_signal(target: int, signal_number: int) -> bool:
    """Whether there was anybody, a process or (negative) a group, to take the signal."""
    try:
        os.kill(target, signal_number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def is_group_alive(group: int) -> bool:
    return send_signal(-group, 0)


def is_leaderless(group: int) -> bool:
    """Whether nobody has the group's number as a process id.

    The number of a group with members is not given to a new process, so a process that has it now
    means that the group is gone and the number belongs to a stranger.
    """
    try:
        os.kill(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def find_processes(groups: set[int], marker: bytes) -> set[int]:
    """Process ids on Linux, elsewhere the groups that live, as negative numbers."""
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
    """The run and its living groups, once the server at the other end is gone.

    First line the run; then `+group` when one starts, `~group` when its leader has ended and others
    of it live on, `-group` when it has ended.
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
    # The server has started us with these blocked; this is for whoever starts us by hand.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    run, groups = read_groups(sys.stdin.fileno())
    if run:
        terminate(groups, build_run_marker(run), WATCHDOG_GRACE_SECONDS)


if __name__ == "__main__":
    main()
