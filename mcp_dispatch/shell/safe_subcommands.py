"""Subcommands of programs that only read when they are called with these subcommands."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from mcp_dispatch.shell.arguments import (
    Operands,
    OptionSpec,
    ProgramSpec,
    accept_nothing,
    accept_texts,
)

NONE, TEXTS = Operands.NONE, Operands.TEXTS

_KUBECTL_OPTIONS = "A n: l: o: L: --all-namespaces --namespace: --selector: --output: --show-labels"
_KUBECTL_REFUSED = re.compile(r"secret|file|template|custom-columns", re.IGNORECASE)
_SYSTEMCTL_OPTIONS = (
    "alq n: t: --all --full --no-pager --user --type: --state: --lines: --quiet --failed"
)
_DOCKER_VARIABLES = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG")
_DOCKER_LIST_OPTIONS = (
    "aqs n: f: l --all --quiet --size --no-trunc --last: --latest --filter: --format:"
)


def _build_docker(spec: str, operands: Operands = NONE) -> ProgramSpec:
    return ProgramSpec(OptionSpec.parse(spec), operands, unsafe_variables=_DOCKER_VARIABLES)


def _build_kubectl(spec: str) -> ProgramSpec:
    return ProgramSpec(
        OptionSpec.parse(spec),
        TEXTS,
        refused_pattern=_KUBECTL_REFUSED,
        unsafe_variables=("KUBECONFIG",),
    )


_SUBCOMMANDS: dict[tuple[str, ...], ProgramSpec] = {
    ("command", "-v"): accept_texts(min_operands=1),
    ("command", "-V"): accept_texts(min_operands=1, max_operands=1),
    ("ip", "addr"): accept_nothing(),
    ("ip", "addr", "show"): accept_texts(),
    ("ip", "a"): accept_nothing(),
    ("ip", "route"): accept_nothing(),
    ("ip", "route", "show"): accept_texts(),
    ("ip", "link"): accept_nothing(),
    ("ip", "link", "show"): accept_texts(),
    ("systemctl", "status"): accept_texts(_SYSTEMCTL_OPTIONS),
    ("systemctl", "is-active"): accept_texts(_SYSTEMCTL_OPTIONS),
    ("systemctl", "is-enabled"): accept_texts(_SYSTEMCTL_OPTIONS),
    ("systemctl", "list-units"): accept_texts(_SYSTEMCTL_OPTIONS),
    ("systemctl", "list-unit-files"): accept_texts(_SYSTEMCTL_OPTIONS),
    ("systemctl", "show"): accept_texts(f"{_SYSTEMCTL_OPTIONS} p: --property: --value"),
    # They connect only to the servers of the user's own configuration.
    ("docker", "ps"): _build_docker(_DOCKER_LIST_OPTIONS),
    ("docker", "container", "ls"): _build_docker(_DOCKER_LIST_OPTIONS),
    ("docker", "images"): _build_docker(
        "aq f: --all --quiet --no-trunc --digests --filter: --format:", TEXTS
    ),
    ("docker", "image", "ls"): _build_docker("aq f: --all --quiet --filter: --format:", TEXTS),
    ("docker", "version"): _build_docker("f: --format:"),
    ("docker", "info"): _build_docker("f: --format:"),
    ("docker", "inspect"): _build_docker("s f: --size --format: --type:", TEXTS),
    ("docker", "logs"): _build_docker(
        "ft n: --follow --timestamps --details --tail: --since: --until:", TEXTS
    ),
    ("docker", "stats"): _build_docker("a --all --no-stream --no-trunc --format:", TEXTS),
    ("docker", "top"): _build_docker("", TEXTS),
    ("docker", "port"): _build_docker("", TEXTS),
    ("docker", "diff"): _build_docker("", TEXTS),
    ("docker", "history"): _build_docker("Hq --human --no-trunc --quiet --format:", TEXTS),
    ("docker", "volume", "ls"): _build_docker("q f: --quiet --filter: --format:"),
    ("docker", "network", "ls"): _build_docker("q f: --quiet --no-trunc --filter: --format:"),
    ("kubectl", "get"): _build_kubectl(
        f"{_KUBECTL_OPTIONS} w --watch --sort-by: --field-selector: --no-headers"
    ),
    ("kubectl", "describe"): _build_kubectl("A n: l: --all-namespaces --namespace: --selector:"),
    ("kubectl", "logs"): _build_kubectl(
        "fp c: n: l: --follow --previous --container: --namespace: --selector: --tail: --since:"
        " --timestamps --all-containers --prefix"
    ),
    ("kubectl", "explain"): _build_kubectl("--recursive --api-version:"),
    ("kubectl", "top"): _build_kubectl(
        "A n: l: --all-namespaces --namespace: --selector: --containers"
    ),
    ("kubectl", "version"): _build_kubectl("o: --client --output:"),
    ("kubectl", "api-resources"): _build_kubectl("o: --namespaced --verbs: --output:"),
    ("kubectl", "api-versions"): _build_kubectl(""),
    ("kubectl", "cluster-info"): _build_kubectl(""),
}

# The actions that the documentation of craft-agent lists as reading, by entity.
_CRAFT_AGENT_ACTIONS = {
    "label": ("list", "get"),
    "source": ("list", "get", "validate"),
    "skill": ("list", "get", "validate", "where"),
    "automation": ("list", "get", "validate", "history", "last-executed", "lint"),
    "permission": ("list", "get", "validate"),
    "theme": ("get", "validate", "list-presets"),
}


def _build_craft_agent() -> dict[tuple[str, ...], ProgramSpec]:
    spec = accept_texts("--limit: --source:")
    actions = {
        ("craft-agent", entity, action): spec
        for entity, names in _CRAFT_AGENT_ACTIONS.items()
        for action in names
    }
    return {
        **actions,
        ("craft-agent", "--help"): accept_nothing(),
        ("craft-agent", "--version"): accept_nothing(),
        ("craft-agent", "--discover"): accept_nothing(),
    }


SUBCOMMANDS: Mapping[tuple[str, ...], ProgramSpec] = MappingProxyType(
    {**_SUBCOMMANDS, **_build_craft_agent()}
)
