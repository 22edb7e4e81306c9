"""How much of a model's context a definition takes, estimated."""

import json

from mcp_dispatch.model.json import JsonObject

_BYTES_PER_TOKEN = 4


def estimated_tokens(definition: JsonObject) -> int:
    """By its length as compact JSON: about right for English and for code, without a tokenizer."""
    text = json.dumps(definition, ensure_ascii=False, separators=(",", ":"))
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)
