"""A second implementation of the decision, written from docs/rules.md alone: small and slow.

It knows calls of a few tools, commands of plain words, and no links. Work is done in `/workspace`,
home is `/home/someone`, and the settings file lies in `/config`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from posixpath import basename, join, normpath
from typing import Any

WORKSPACE, HOME, CONFIG = "/workspace", "/home/someone", "/config"
HARMLESS, LOOKS, EDITS = (
    {"LANG=C", "NODE_ENV=test"},
    ("cat", "head", "cd"),
    ("touch", "rm", "mkdir"),
)
RUNNERS, PLAIN_RUNNERS = {"sudo": 1, "env": 1, "timeout": 2, "nohup": 1}, {"timeout": 2, "nohup": 1}
FILE_TOOLS = (("Read",), ("Edit", "Write"))
PROTECTED, OURS = {".git", ".bashrc"}, {".mcp-dispatch", ".mcp.json"}
Json = dict[str, Any]


@dataclass
class Part:
    """A simple command, or the call of another tool: its words, and the files it is about."""

    words: list[str]
    sets: list[str]
    targets: list[str]
    reads: list[str]
    writes: list[str]


def decide(settings: Json, call: Json, hooks: Iterable[str] = ()) -> str:
    """Tier by tier: the first that speaks decides."""
    mode, tool, given = settings["mode"], call["tool"], call["input"]
    files = [[absolute(given["file_path"])] if tool in kind else [] for kind in FILE_TOOLS]
    parts = split(given["command"]) if tool == "Bash" else [Part([], [], [], *files)]
    question = "deny" if mode == "dontAsk" or settings.get("quiet") else "ask"
    if "deny" in hooks or listed(settings, "deny", call, parts) or forbidden(settings, tool, parts):
        return "deny"
    if "ask" in hooks or listed(settings, "ask", call, parts) or critical(settings, call, parts):
        return question
    free = "allow" in hooks or mode == "bypassPermissions" or allowed(settings, call, parts)
    return "allow" if free else question


def split(text: str) -> list[Part]:
    """A command line at its operators. After a `cd`, what follows runs here or there."""
    parts, places = list[Part](), [WORKSPACE]
    for piece in re.split(r"\|\||&&|[;|&\n()$]", text):
        before, _, after = piece.partition(">")
        words = [word for word in before.split() if "=" not in word]
        name, *operands = layers(words)[-1]
        files = [absolute(word, place) for word in operands for place in places]
        targets = [absolute(word, place) for word in after.split() for place in places]
        reads = files if basename(name) in ("cat", "head") else []
        writes = files if basename(name) in (*EDITS, "tee") else []
        sets = [word for word in before.split() if "=" in word]
        parts += [Part(words, sets, targets, reads, writes + targets)] if piece.strip() else []
        places += files if name == "cd" else []
    return parts


def absolute(path: str, start: str = WORKSPACE) -> str:
    return normpath(join(start, re.sub(r"^~(?=/|$)", HOME, path)))


def layers(words: list[str], runners: dict[str, int] = RUNNERS) -> list[list[str]]:
    """The command as it stands, and without each program that only runs what follows."""
    found = [words or [""]]
    while found[-1][0] in runners:
        found.append(found[-1][runners[found[-1][0]] :] or [""])
    return found


def inside(paths: Iterable[str]) -> bool:
    return all(f"{path}/".startswith(f"{WORKSPACE}/") for path in paths)


def wild(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None


def names(rule: str, tool: str) -> bool:
    return wild(f"{rule}__*" if re.fullmatch("mcp__[a-z]+", rule) else rule, tool)


def command_fits(spec: str, words: list[str]) -> bool:
    line, prefix = " ".join(words), re.sub(r"(:| )\*$", "", spec)
    return wild(prefix, line) or (prefix != spec and wild(f"{prefix} *", line))


def path_fits(pattern: str, path: str, *, wide: bool) -> bool:
    """gitignore, from the anchor on: a match covers all that lies below."""
    anchors = {"//": "", "~/": HOME, "/": CONFIG, "": WORKSPACE}
    start = next(start for start in anchors if pattern.startswith(start))
    rest, inner = pattern[len(start) :].removeprefix("./"), path.removeprefix(anchors[start])
    anywhere = start == "" and ("/" not in rest or (wide and re.fullmatch(r"\w+/\*\*", rest)))
    meaning = {"**/": "(.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*"}
    found = re.findall(r"\*\*/|/\*\*$|\*\*|\*|[^*/]+|/", rest)
    regex = "".join(meaning.get(one) or re.escape(one) for one in found)
    whole, spellings = (
        f"/{'(.*/)?' if anywhere else ''}{regex}(/.*)?",
        [inner, f"{inner}/"][: 1 + wide],
    )
    below = f"{path}/".startswith(f"{anchors[start]}/")
    return below and any(re.fullmatch(whole, each) for each in spellings)


def listed(settings: Json, effect: str, call: Json, parts: list[Part]) -> bool:
    """For deny and ask: one part, one file, one name is enough."""
    return any(means(rule, effect, call, parts) for rule in settings[effect])


def means(rule: str, effect: str, call: Json, parts: list[Part]) -> bool:
    name, _, spec = rule.removesuffix(")").partition("(")
    parameter = re.fullmatch(r"(branch|timeout):(.+)", spec)
    if parameter is not None:
        value = call["input"].get(parameter[1])
        return names(name, call["tool"]) and value is not None and wild(parameter[2], str(value))
    if spec in ("", "*"):
        return names(name, call["tool"])
    if name == "Bash":
        tails = [tail for part in parts for tail in layers(part.words)]
        return any(command_fits(spec, [basename(tail[0]), *tail[1:]]) for tail in tails)
    written = [file for part in parts for file in part.writes if name == "Edit" or effect == "deny"]
    read = [file for part in parts for file in part.reads if name == "Read"]
    return any(path_fits(spec, file, wide=True) for file in written + read)


def forbidden(settings: Json, tool: str, parts: list[Part]) -> bool:
    """Our own files are never written; what is blocked outside is neither read nor written."""
    reads = settings.get("blockReads") and not inside(f for part in parts for f in part.reads)
    writes = settings.get("blockWrites") and not inside(f for part in parts for f in part.writes)
    ours = any(OURS & {*file.split("/")} for part in parts for file in part.writes)
    return ours or (tool != "Bash" and bool(reads or writes))


def critical(settings: Json, call: Json, parts: list[Part]) -> bool:
    """Protected paths, critical removals, unreadable places, and what only the shell knows."""
    writes = [file for part in parts for file in part.writes]
    removed = [f for part in parts for f in part.writes if layers(part.words)[-1][0] == "rm"]
    named = [absolute(word) for part in parts for word in part.words[1:]]
    unsure = [rule for rule in settings["ask"] + settings["deny"] if rule.startswith("Bash(* ")]
    fatal = any(path.count("/") == 1 or f"{HOME}/".startswith(f"{path}/") for path in removed)
    outside = call["tool"] == "Bash" and "blockReads" in settings and not inside(named + writes)
    protected = settings["mode"] != "bypassPermissions" and any(
        PROTECTED & {*f.split("/")} for f in writes
    )
    return fatal or outside or protected or bool(unsure and "$" in call["input"].get("command", ""))


def allowed(settings: Json, call: Json, parts: list[Part]) -> bool:
    """The mode, what only looks, and rules that cover every part and every file."""
    tool, mode, text = call["tool"], settings["mode"], call["input"].get("command", "")
    written: list[str] = [] if mode == "plan" and tool != "Read" else settings["allow"]
    rules = [rule.removesuffix("(*)") for rule in written]
    if any(names(rule, tool) for rule in rules if "(" not in rule):
        return True
    reads, writes, accepts = parts[0].reads, parts[0].writes, mode == "acceptEdits"
    if tool != "Bash":
        free = inside(reads) if reads else accepts and inside(writes)
        return bool(reads + writes) and (
            free or granted(rules, reads + writes, "Read" if reads else "Edit")
        )
    targets = [target for part in parts for target in part.targets]
    may_write = accepts or "Edit" in rules or granted(rules, targets, "Edit")
    if "$" in text or not may_write or not inside(targets):
        return False
    specs = [rule[5:-1] for rule in rules if rule.startswith("Bash(")]
    looking = [part for part in parts if is_one_of(LOOKS, part, {})]
    editing = [part for part in parts if is_one_of((*EDITS, "cd"), part, PLAIN_RUNNERS)]
    ruled = [part for part in parts if covered(part, specs)]
    if text.strip() in specs or (len(looking) == len(parts) and "(" not in text):
        return True
    if accepts and any(p.writes for p in parts) and all(p in looking + editing for p in parts):
        return True
    return bool(ruled) and all(part in ruled + looking or not part.words for part in parts)


def is_one_of(programs: Iterable[str], part: Part, runners: dict[str, int]) -> bool:
    known = layers(part.words, runners)[-1][0] in programs and HARMLESS.issuperset(part.sets)
    return known and inside(part.reads + part.writes)


def granted(rules: list[str], files: list[str], tool: str) -> bool:
    """An allow needs every file; one for Edit also grants the read."""
    specs = [rule[5:-1] for rule in rules if rule.startswith(("Edit(", f"{tool}("))]
    return all(any(path_fits(spec, file, wide=False) for spec in specs) for file in files)


def covered(part: Part, specs: list[str]) -> bool:
    lines = [part.words, layers(part.words, PLAIN_RUNNERS)[-1]] if part.words else []
    meant = any(suffices(spec, line) for spec in specs for line in lines)
    return meant and HARMLESS.issuperset(part.sets)


def suffices(spec: str, line: list[str]) -> bool:
    """It means the command, and names in full whatever runs another program."""
    words = re.sub(r"(:| )\*$", "", spec).split()
    spelled = next((at for at, word in enumerate(words) if "*" in word), len(words))
    run_by = len(line) - len(layers(line)[-1]) + (line[0] in RUNNERS)
    return spelled >= run_by and command_fits(spec, line)
