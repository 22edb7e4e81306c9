"""Converts HTML on stdin to Markdown on stdout, in a process that can be killed.

Python's HTML parser needs quadratic time for some input, and a thread cannot be stopped. The program
is run by its path in isolated mode, with the URL of the page as its only argument, and imports
nothing of this package.
"""

import re
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PreformattedString, Tag
from markdownify import ATX, MarkdownConverter

MAX_DEPTH = 150
"""Below this depth, only the text of tags is kept."""

_MAX_MEMORY_BYTES = 2 * 1024**3
_DROPPED_TAGS = (
    "script",
    "style",
    "template",
    "svg",
    "iframe",
    "object",
    "embed",
    "canvas",
    "title",
)
_NUMBER_ATTRIBUTES = ("start", "colspan", "rowspan")
_SMALL_NUMBER = re.compile(r"[0-9]{1,3}", re.ASCII)
_LINK_ATTRIBUTES = (
    ("a", "href"),
    ("img", "src"),
    ("video", "src"),
    ("video", "poster"),
    ("source", "src"),
)
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")

_TABLE_TAGS = frozenset({"table"})
_CELL_OR_TABLE_TAGS = frozenset({"table", "td", "th", "caption", "button", "[document]"})
_BLOCK_TAGS = (
    *("p", "div", "ul", "ol", "dl", "table", "pre", "blockquote", "section", "article", "hr"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "header", "footer", "main", "nav", "aside", "figure"),
    *("form", "fieldset", "address", "details", "menu"),
)
# A start tag closes an open tag of the first set, up to the nearest tag of the second set:
# pages omit end tags.
_IMPLIED_ENDS = {
    **dict.fromkeys(_BLOCK_TAGS, (frozenset({"p"}), _CELL_OR_TABLE_TAGS)),
    "li": (frozenset({"li"}), frozenset({"ul", "ol", "menu", *_CELL_OR_TABLE_TAGS})),
    **dict.fromkeys(
        ("dt", "dd"), (frozenset({"dt", "dd"}), frozenset({"dl", *_CELL_OR_TABLE_TAGS}))
    ),
    **dict.fromkeys(("td", "th"), (frozenset({"td", "th"}), frozenset({"tr", "table"}))),
    "tr": (frozenset({"tr"}), _TABLE_TAGS),
    **dict.fromkeys(
        ("thead", "tbody", "tfoot"), (frozenset({"thead", "tbody", "tfoot"}), _TABLE_TAGS)
    ),
    "option": (frozenset({"option"}), frozenset({"select"})),
}
_MAX_ANCESTORS = 64


class _Soup(BeautifulSoup):
    """Closes paragraphs, list items and cells whose end tags are omitted."""

    def handle_starttag(
        self,
        name: str,
        namespace: str | None,
        nsprefix: str | None,
        attrs: Mapping[str, str],
        *rest: Any,
        **more: Any,
    ) -> Tag | None:
        ended = self._find_implied_end(name)
        if ended is not None:
            self.handle_endtag(ended)
        return super().handle_starttag(name, namespace, nsprefix, attrs, *rest, **more)

    def _find_implied_end(self, name: str) -> str | None:
        ends, stops = _IMPLIED_ENDS.get(name, (frozenset[str](), frozenset[str]()))
        tag: Tag | None = self.currentTag if ends else None
        for _ in range(_MAX_ANCESTORS):
            if tag is None or tag.name in stops:
                return None
            if tag.name in ends:
                return tag.name
            tag = tag.parent
        return None


def convert_to_markdown(html: str, base: str) -> str:
    """Convert HTML; relative links are resolved against the URL `base`."""
    soup = _Soup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    headed = soup.find("h1") is not None
    base = _find_base_url(soup, base)
    for tag in soup.find_all(_DROPPED_TAGS):
        tag.decompose()
    # Comments, declarations and similar nodes.
    unseen = [text for text in soup.find_all(string=True) if isinstance(text, PreformattedString)]
    for text in unseen:
        text.extract()
    _flatten_deep_tags(soup)
    _clean_attributes(soup, base)
    converter = MarkdownConverter(
        heading_style=ATX, bullets="-", escape_asterisks=False, escape_underscores=False
    )
    text = _BLANK_LINES.sub("\n\n", converter.convert_soup(soup)).strip()
    return f"# {title}\n\n{text}" if title and not headed else text


def _find_base_url(soup: BeautifulSoup, base: str) -> str:
    stated = soup.find("base", href=True)
    return _resolve_link(base, str(stated["href"])) or base if isinstance(stated, Tag) else base


def _flatten_deep_tags(soup: BeautifulSoup) -> None:
    """Replace deep tags by their text: the converter is recursive."""
    level: list[Tag] = [soup]
    for _ in range(MAX_DEPTH):
        level = [child for tag in level for child in tag.children if isinstance(child, Tag)]
        if not level:
            return
    for tag in level:
        text = tag.get_text(" ", strip=True)
        tag.clear()
        tag.append(NavigableString(text))


def _clean_attributes(soup: BeautifulSoup, base: str) -> None:
    """Make links absolute, remove embedded files and invalid numbers."""
    for name, key in _LINK_ATTRIBUTES:
        for tag in soup.find_all(name, {key: True}):
            link = _resolve_link(base, str(tag[key]))
            if link:
                tag[key] = link
            else:
                del tag[key]
    for tag in soup.find_all("img", src=False):
        tag.replace_with(NavigableString(str(tag.get("alt") or "")))
    for key in _NUMBER_ATTRIBUTES:
        for tag in soup.find_all(True, {key: True}):
            if not _SMALL_NUMBER.fullmatch(str(tag[key])):
                del tag[key]


def _resolve_link(base: str, link: str) -> str | None:
    """Return an absolute link; None for `javascript:`, `data:` and invalid URLs."""
    try:
        joined = urljoin(base, link.strip())
    except ValueError:
        return None
    written = "".join(joined.split())
    return written if written.lower().startswith(("http:", "https:", "mailto:")) else None


def _limit_memory() -> None:
    if sys.platform == "win32":
        return
    import resource

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = _MAX_MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MAX_MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def main() -> None:
    if sys.platform == "linux":
        _limit_memory()
    html = sys.stdin.buffer.read().decode("utf-8")
    sys.stdout.buffer.write(convert_to_markdown(html, sys.argv[1]).encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
