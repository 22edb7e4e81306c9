"""All settings for one workspace: its files found, its trust looked up, everything merged."""

from dataclasses import replace
from pathlib import Path

from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.settings.layers import Layer, Sources, layers_of
from mcp_dispatch.settings.parse import LayerFile, read_layer
from mcp_dispatch.settings.problems import Problem, Severity
from mcp_dispatch.settings.read_file import Shelf, Text, read_text
from mcp_dispatch.settings.settings import Settings, load
from mcp_dispatch.settings.trust import read_record, record_path
from mcp_dispatch.settings.trust_survey import Survey, survey


class SettingsFiles:
    """Reads them again whenever asked, and remembers what they said when they last made sense."""

    def __init__(self, sources: Sources, *, supported: frozenset[str] = frozenset()) -> None:
        self._sources = sources
        self._supported = supported
        self._shelf = Shelf()

    def read(self, root: Path | None) -> Settings:
        """The settings for the workspace at the real path `root`. Raises as `load` does."""
        config_dir = self._sources.config_dir
        record, problems = read_record(config_dir, root) if root else (None, ())
        settings = load(
            layers_of(self._sources, root),
            supported=self._supported,
            record=record,
            root=root,
            shelf=self._shelf,
        )
        return replace(settings, problems=(*settings.problems, *problems))

    def watched(self, root: Path | None) -> tuple[Path, ...]:
        """What decides the settings, there or not."""
        try:
            layers = [layer.path for layer in layers_of(self._sources, root)]
        except ConfigError:
            layers = []  # reading them again will say why; what was read stays in force
        records = [record_path(self._sources.config_dir, root)] if root else []
        return (*layers, *records, self._sources.managed_dir / "settings.d")


def workspace_layers(sources: Sources, root: Path) -> list[Layer]:
    return [layer for layer in layers_of(sources, root) if layer.of_workspace]


def survey_layers(layers: list[Layer]) -> tuple[Survey, list[Problem]]:
    """What the files of a workspace ask for, as they are now."""
    problems: list[Problem] = []
    files: list[LayerFile] = []
    for layer in layers:
        text = read_text(layer.path)
        if isinstance(text, Text):
            files.append(read_layer(layer, text, problems))
        elif text is not None:
            message = f"{text.reason}; the whole file is ignored"
            problems.append(Problem(Severity.ERROR, layer.path, "", message))
    return survey(files), problems
