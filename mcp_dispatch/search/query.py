"""Parses a query into exact names, a server, required words and words to rank by."""

import re
from dataclasses import dataclass

MAX_QUERY_CHARS = 2_000
_TAIL_CHARS = 500
_MAX_NAMES = 50
_MAX_REQUIRED = 8
_URL = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_PATH = re.compile(
    r"(?<!\w)(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w.\-/\\]+"
    r"|(?<![\w.-])[\w-]+\.(?:md|pdf|xlsx?|csv|pptx?|docx?|txt|py|[jt]sx?|html?|json|ya?ml|toml|log"
    r"|png|jpe?g|gif|svg|wav|mp[34]|zip|db|sqlite|sql|bib)\b",
    re.IGNORECASE,
)
_LONG_TOKEN = re.compile(r"\S{41,}")
_REQUIRED = re.compile(r"(?<!\S)\+(?=[^\W\d_])(\S+)")
_SERVER = re.compile(r"\s*mcp__([^\s_]+(?:_[^\s_]+)*)(?:__)?(?!\S)", re.IGNORECASE)

# File tools handle plain text of any kind; other formats have tools of their own.
_WORDS_BY_SUFFIX = {
    "pdf": "pdf document",
    "xlsx": "excel sheet",
    "xls": "excel sheet",
    "pptx": "presentation slide",
    "ppt": "presentation slide",
    "docx": "word document",
    "doc": "word document",
    "png": "image",
    "jpg": "image",
    "jpeg": "image",
    "gif": "image",
    "svg": "svg",
    "wav": "audio",
    "mp3": "audio",
    "mp4": "video",
    "zip": "archive",
    "db": "database",
    "sqlite": "database",
    "sql": "sql",
}


@dataclass(frozen=True, slots=True)
class ToolSearchQuery:
    """A parsed query. `names` are exact and exclude the other fields; `text` is used to rank."""

    text: str = ""
    names: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    server: str = ""


def parse_query(query: str) -> ToolSearchQuery:
    """Parse `select:A,B`, `mcp__server rest`, `+required rest` and plain words.

    Only the beginning and the end of an over-long query count: between them is pasted text.
    """
    query = _truncate_query(query.strip())
    if query[:7].lower() == "select:":
        names = (name.strip() for name in query[7:].split(","))
        return ToolSearchQuery(names=tuple(dict.fromkeys(filter(None, names)))[:_MAX_NAMES])
    server = ""
    if prefix := _SERVER.match(query):
        server, query = prefix[1], query[prefix.end() :].strip()
    required = filter(None, (word.strip("\"'.,;:()+") for word in _REQUIRED.findall(query)))
    text = _REQUIRED.sub(r"\1", query)
    return ToolSearchQuery(text, (), tuple(dict.fromkeys(required))[:_MAX_REQUIRED], server)


def replace_pasted_text(text: str) -> str:
    """Replace URLs, paths and long tokens by their kind.

    The words inside them name an object, not the tool for it.
    """
    text = _URL.sub(" url ", text)
    return _LONG_TOKEN.sub(" ", _PATH.sub(_describe_file, text))


def _truncate_query(query: str) -> str:
    if len(query) <= MAX_QUERY_CHARS:
        return query
    return f"{query[: MAX_QUERY_CHARS - _TAIL_CHARS]} {query[-_TAIL_CHARS:]}"


def _describe_file(path: re.Match[str]) -> str:
    ending = path[0].rpartition(".")[2].lower()
    return f" {_WORDS_BY_SUFFIX.get(ending, 'file')} "
