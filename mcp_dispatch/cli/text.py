"""Text for a terminal: escaped, and wrapped below a label."""

import json
import textwrap

_WIDTH = 80


def escape_non_ascii(text: str) -> str:
    """Escape characters that could hide or rearrange the output."""
    return json.dumps(text)[1:-1].replace('\\"', '"')


def wrap_text(label: str, text: str) -> str:
    return textwrap.fill(
        escape_non_ascii(text),
        _WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_on_hyphens=False,
        break_long_words=False,  # a path is there to be copied
    )
