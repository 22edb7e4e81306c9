"""One hook as it is written in a settings file, and the command it stands for."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from mcp_dispatch.hooks.report import Report, value_shown
from mcp_dispatch.hooks.text import shown
from mcp_dispatch.model.json import Json, JsonObject

DEFAULT_SECONDS: Final = 600.0

Shell = Literal["sh", "bash"]


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run. With `args` it is started directly, without them a shell reads it."""

    command: str
    args: tuple[str, ...] | None = None
    shell: Shell = "sh"
    timeout: float = DEFAULT_SECONDS
    condition: str | None = None
    """The rule in `if`. We cannot judge it yet, so the hook runs, and its allow does not count."""
    background: bool = False
    """`async`: nothing waits for its decision in Claude Code, so it has none here."""
    block_on_failure: bool = False

    @property
    def label(self) -> str:
        return shown(" ".join((self.command, *(self.args or ()))))


def _startable(text: str) -> str:
    if "\0" in text:
        raise ValueError("NUL")
    return text


_Startable = Annotated[str, AfterValidator(_startable)]


class _CommandEntry(BaseModel):
    """Strict: a number is not taken for a text."""

    model_config = ConfigDict(extra="ignore", strict=True)

    command: Annotated[_Startable, Field(min_length=1)]
    args: list[_Startable] = []
    shell: Literal["bash"] = "bash"
    timeout: float = Field(default=DEFAULT_SECONDS, gt=0, allow_inf_nan=False)
    background: bool = Field(default=False, alias="async")
    on_failure: Literal["continue", "block"] = Field(default="continue", alias="onFailure")


_EXPECTED: Final = {
    "command": "a command, not empty and without NUL",
    "args": "a list of texts",
    "shell": '"bash"',
    "timeout": "a number of seconds over 0",
    "async": "true or false",
    "onFailure": '"continue" or "block"',
}
_OPTIONS: Final = frozenset({"timeout", "async", "onFailure"})
_NO_EFFECT_YET: Final = frozenset({"statusMessage", "asyncRewake", "once"})
_READ_ELSEWHERE: Final = frozenset({"type", "if"})


def read_command(entry: JsonObject, report: Report) -> Command | None:
    """The command, or None once it has been reported why it cannot be run."""
    written = _validated(entry, report)
    if written is None:
        return None
    _report_what_differs(entry, written, report)
    return Command(
        command=written.command,
        args=tuple(written.args) if "args" in entry else None,
        shell="bash" if "shell" in entry else "sh",
        timeout=written.timeout,
        condition=_condition(entry),
        background=written.background,
        block_on_failure=written.on_failure == "block",
    )


def _validated(entry: JsonObject, report: Report) -> _CommandEntry | None:
    try:
        return _CommandEntry.model_validate(entry)
    except ValidationError as error:
        wrong = {str(fault["loc"][0]): cast(Json, fault["input"]) for fault in error.errors()}
    for key, value in wrong.items():
        got = value_shown(None if key not in entry else value)
        kept = "the default is used" if key in _OPTIONS else "the hook does not run"
        report.at(key).say(f"expected {_EXPECTED[key]}, got {got}; {kept}")
    if wrong.keys() - _OPTIONS:
        return None
    return _CommandEntry.model_validate({key: entry[key] for key in entry.keys() - wrong.keys()})


def _condition(entry: JsonObject) -> str | None:
    if "if" not in entry:
        return None
    rule = entry["if"]
    return rule if isinstance(rule, str) else value_shown(rule)


def _report_what_differs(entry: JsonObject, written: _CommandEntry, report: Report) -> None:
    if "if" in entry:
        report.at("if").say(
            "is not supported yet; the hook runs whenever its matcher fits, and what it allows "
            "does not count"
        )
    if written.background:
        report.at("async").say(
            "is not supported yet; the hook is waited for, and what it decides does not count"
        )
    for key in entry:
        if key in _NO_EFFECT_YET:
            report.at(key).say("is not supported yet and has no effect")
        elif key not in _EXPECTED and key not in _READ_ELSEWHERE:
            report.at(key).say("is not an option of a command hook and has no effect")
