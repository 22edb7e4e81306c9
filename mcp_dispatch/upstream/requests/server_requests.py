"""A question of a server's own: who may be asked it, what they are shown, what the answer means."""

from dataclasses import dataclass
from typing import Final

from mcp_dispatch.model.client import Client, NotAnswered, Respondent
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import visible

ELICITATION: Final = "elicitation/create"
SAMPLING: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"
CANCELLED: Final[JsonObject] = {"action": "cancel"}

_NOT_DECLARED: Final = -32601
_SERVER_META: Final = "mcp-dispatch/server"


@dataclass(frozen=True, slots=True)
class Inquiry:
    """`method` and `params` are the server's."""

    server: str
    method: str
    params: JsonObject

    @property
    def request(self) -> JsonObject:
        """As the client sees it: a person must know who wants an answer."""
        if self.method == ROOTS:
            return {"method": self.method, "params": self.params}
        meta = self.params.get("_meta")
        known = meta if isinstance(meta, dict) else {}
        params: JsonObject = {**self.params, "_meta": {**known, _SERVER_META: self.server}}
        message = self.params.get("message")
        if self.method == ELICITATION and isinstance(message, str):
            params["message"] = f"[{self.server}] {visible(message)}"
        return {"method": self.method, "params": params}

    def refuse_undeclared(self, client: Client) -> None:
        """Raises `NotAnswered` for what the client did not say that it can answer."""
        missing = _missing(self.method, self.params, client.capabilities)
        if missing is not None:
            raise NotAnswered(
                _NOT_DECLARED,
                f"mcp-dispatch: the client cannot answer {self.method!r}: it did not declare "
                f"{missing!r}",
            )

    async def foreseen(self, respondent: Respondent) -> JsonObject | None:
        if self.method != ELICITATION:
            return None
        return await respondent.foresee(self.server, self.params)

    async def reviewed(self, respondent: Respondent, answer: JsonObject) -> JsonObject:
        if self.method != ELICITATION:
            return answer
        return await respondent.review(self.server, self.params, answer)

    async def put_to(self, client: Client) -> JsonObject:
        request = self.request
        params = request["params"]
        assert isinstance(params, dict)
        return await client.put(self.method, params)


def _missing(method: str, params: JsonObject, capabilities: JsonObject) -> str | None:
    """The capability that the client would need and did not declare."""
    if method == ELICITATION:
        return _missing_mode(params.get("mode", "form"), capabilities.get("elicitation"))
    if method == SAMPLING:
        declared = capabilities.get("sampling")
        if not isinstance(declared, dict):
            return "sampling"
        return "sampling.tools" if "tools" in params and "tools" not in declared else None
    if method == ROOTS:
        return None if isinstance(capabilities.get("roots"), dict) else "roots"
    return method


def _missing_mode(mode: Json, declared: Json) -> str | None:
    """A bare `elicitation` means forms; one that names modes must name this one."""
    if not isinstance(declared, dict):
        return "elicitation"
    if mode == "form" and not declared:
        return None
    return None if isinstance(mode, str) and mode in declared else f"elicitation.{mode}"
