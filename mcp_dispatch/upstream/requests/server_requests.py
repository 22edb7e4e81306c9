"""A request of a server to a client: the capability it needs, and the form clients receive."""

from dataclasses import dataclass
from typing import Final

from mcp_dispatch.model.client import Client, ClientBridge, ClientRequestError
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import escape_control_characters

ELICITATION: Final = "elicitation/create"
SAMPLING: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"
CANCELLED: Final[JsonObject] = {"action": "cancel"}

_NOT_DECLARED: Final = -32601
_SERVER_META: Final = "mcp-dispatch/server"


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request with the method and parameters that the server sent."""

    server: str
    method: str
    params: JsonObject

    @property
    def client_request(self) -> JsonObject:
        """The request as the client receives it: it names the server, so that a person can judge it."""
        if self.method == ROOTS:
            return {"method": self.method, "params": self.params}
        meta = self.params.get("_meta")
        known = meta if isinstance(meta, dict) else {}
        params: JsonObject = {**self.params, "_meta": {**known, _SERVER_META: self.server}}
        message = self.params.get("message")
        if self.method == ELICITATION and isinstance(message, str):
            params["message"] = f"[{self.server}] {escape_control_characters(message)}"
        return {"method": self.method, "params": params}

    def refuse_undeclared(self, client: Client) -> None:
        """Raise `ClientRequestError` if the client has not declared the capability."""
        missing = _find_missing_capability(self.method, self.params, client.capabilities)
        if missing is not None:
            raise ClientRequestError(
                _NOT_DECLARED,
                f"mcp-dispatch: the client cannot answer {self.method!r}: it did not declare "
                f"{missing!r}",
            )

    async def answer_by_hook(self, bridge: ClientBridge) -> JsonObject | None:
        if self.method != ELICITATION:
            return None
        return await bridge.answer_by_hook(self.server, self.params)

    async def review_answer(self, bridge: ClientBridge, answer: JsonObject) -> JsonObject:
        if self.method != ELICITATION:
            return answer
        return await bridge.review_answer(self.server, self.params, answer)

    async def ask_client(self, client: Client) -> JsonObject:
        request = self.client_request
        params = request["params"]
        assert isinstance(params, dict)
        return await client.send_request(self.method, params)


def _find_missing_capability(
    method: str, params: JsonObject, capabilities: JsonObject
) -> str | None:
    """Return the capability that the client needs and did not declare."""
    if method == ELICITATION:
        return _find_missing_mode(params.get("mode", "form"), capabilities.get("elicitation"))
    if method == SAMPLING:
        declared = capabilities.get("sampling")
        if not isinstance(declared, dict):
            return "sampling"
        return "sampling.tools" if "tools" in params and "tools" not in declared else None
    if method == ROOTS:
        return None if isinstance(capabilities.get("roots"), dict) else "roots"
    return method


def _find_missing_mode(mode: Json, declared: Json) -> str | None:
    """An empty `elicitation` capability means forms; otherwise it must name the mode."""
    if not isinstance(declared, dict):
        return "elicitation"
    if mode == "form" and not declared:
        return None
    return None if isinstance(mode, str) and mode in declared else f"elicitation.{mode}"
