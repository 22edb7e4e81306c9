"""Conversion of HTML to Markdown in a process that can be killed."""

from collections.abc import AsyncGenerator
from textwrap import dedent

import anyio
import pytest

from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.tools.web.markdown import MarkdownConverter
from mcp_dispatch.web.markdown_worker import convert_to_markdown

BASE = "https://example.com/docs/page"


@pytest.fixture
async def converter() -> AsyncGenerator[MarkdownConverter]:
    async with ProcessGroup() as children:
        yield MarkdownConverter(children, {}, seconds=10)


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<h1>A</h1><h3>B</h3>", "# A\n\n### B"),
        ("<title>T &amp; U</title><p>x", "# T & U\n\nx"),
        ("<title>T</title><h1>H</h1>", "# H"),
        ("<p>a <b>b</b> <em>c</em> <code>d_e</code> f_g * h", "a **b** *c* `d_e` f_g * h"),
        ("<p>one<p>two<div>three</div>", "one\n\ntwo\n\nthree"),
        ("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>", "- a\n- b\n  - c\n- d"),
        ("<ol start=3><li>a<li>b</ol>", "3. a\n4. b"),
        ("<ol start=½><li>a</ol>", "1. a"),
        ("<dl><dt>t<dd>d<dt>u<dd>e</dl>", "t\n:   d\n\nu\n:   e"),
        (
            "<table><tr><th>a<th>b<tr><td>1<td colspan=x>2</table>",
            "| a | b |\n| --- | --- |\n| 1 | 2 |",
        ),
        ("<pre><code>x = 1\n  y\n</code></pre>", "```\nx = 1\n  y\n```"),
        ("<a href=../x>l</a>", "[l](https://example.com/x)"),
        ("<a href=//other.example/y>l</a>", "[l](https://other.example/y)"),
        ("<base href=/b/><a href=x>l</a>", "[l](https://example.com/b/x)"),
        ("<a href='javascript:alert(1)'>l</a>", "l"),
        ("<a href=' jAvascript:alert(1)'>l</a>", "l"),
        ("<a href='https://[bad'>l</a>", "l"),
        ("<a href='x\ny'>l</a>", "[l](https://example.com/docs/xy)"),
        ("<img src=i.png alt=logo>", "![logo](https://example.com/docs/i.png)"),
        ("<img src='data:image/png;base64,AAAA' alt=logo>", "logo"),
        ("<p>a<script>b</script><style>c</style><svg><text>d</text></svg><!-- e -->f", "af"),
        ("<![CDATA[hidden]]><?pi x?><!DOCTYPE y>shown", "shown"),
        ("<head><title>T</title><p>no end of the head", "# T\n\nno end of the head"),
        ("a\n\n\n\n<br><br><br><p>b", "a\n\nb"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_html_becomes_markdown(html: str, text: str) -> None:
    written = convert_to_markdown(html, BASE)

    assert "\n".join(line.rstrip() for line in written.splitlines()) == text


@pytest.mark.parametrize("tag", ["div", "b", "ul><li", "blockquote", "table><tr><td", "p><span"])
def test_deep_nesting_keeps_its_text(tag: str) -> None:
    written = convert_to_markdown(f"<{tag}>" * 3_000 + "at the bottom", BASE)

    assert "at the bottom" in written


async def test_a_page_is_converted_in_a_child_process(converter: MarkdownConverter) -> None:
    html = dedent("""\
        <h1>Grüße</h1>
        <p><a href="/x">y</a>
    """)

    assert await converter.convert(html, BASE) == "# Grüße\n\n[y](https://example.com/x)"


@pytest.mark.parametrize(
    "html",
    [
        "<![" * 1_000,
        "<table>" + "<tr><td colspan=999>x" * 11_000,
    ],
    ids=["rejected", "grows without measure"],
)
async def test_a_page_that_breaks_the_converter_returns_none(
    converter: MarkdownConverter, html: str
) -> None:
    assert await converter.convert(html, BASE) is None


async def test_a_page_that_takes_quadratic_time_is_aborted() -> None:
    async with ProcessGroup() as children:
        slow = MarkdownConverter(children, {}, seconds=0.5)

        with anyio.fail_after(5):
            assert await slow.convert("<a " * 300_000, BASE) is None


async def test_many_pages_are_converted_concurrently(converter: MarkdownConverter) -> None:
    found: dict[int, str | None] = {}

    async def convert(number: int) -> None:
        found[number] = await converter.convert(f"<p>{number}</p>", BASE)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(convert, number)

    assert found == {number: str(number) for number in range(6)}
