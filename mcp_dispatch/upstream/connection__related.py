"""A reader that knows on which request's stream the message came that is being looked at."""

from mcp.shared.message import ServerMessageMetadata, SessionMessage

from mcp_dispatch.wire.sdk_streams import SessionReader


class RelatedReader(SessionReader):
    """`related` is of the last message: None where the way to the server has one stream only."""

    def __init__(self, inner: SessionReader) -> None:
        super().__init__()
        self._inner = inner
        self.related: int | None = None

    async def receive(self) -> SessionMessage | Exception:
        message = await self._inner.receive()
        self.related = related_to(message.metadata) if isinstance(message, SessionMessage) else None
        return message

    async def aclose(self) -> None:
        await super().aclose()
        await self._inner.aclose()


def related_to(metadata: object) -> int | None:
    """The id of the request, which is ours and so a number."""
    related = metadata.related_request_id if isinstance(metadata, ServerMessageMetadata) else None
    return related if isinstance(related, int) else None
