"""The command line: one module per command, which imports heavy modules only when it runs."""

import sys
from typing import Annotated

import typer

from mcp_dispatch import __version__
from mcp_dispatch.cli.approvals.command import approvals
from mcp_dispatch.cli.call import call
from mcp_dispatch.cli.doctor import doctor
from mcp_dispatch.cli.explain import explain
from mcp_dispatch.cli.results import app as results
from mcp_dispatch.cli.schema import schema
from mcp_dispatch.cli.search import search
from mcp_dispatch.cli.serve import serve
from mcp_dispatch.cli.tools import tools
from mcp_dispatch.cli.trust import trust, untrust
from mcp_dispatch.demo.demo import demo

app = typer.Typer(
    name="mcp-dispatch",
    help="One MCP server in front of all of your tools.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve)
app.command()(demo)
app.add_typer(approvals, name="approvals")
app.command()(doctor)
app.command()(explain)
app.command()(search)
app.command()(tools)
app.command()(call)
app.command()(trust)
app.command()(untrust)
app.command()(schema)
app.add_typer(results)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"mcp-dispatch {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[  # the callback acts on it
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """One MCP server in front of all of your tools."""


def main() -> None:
    sys.exit(app())
