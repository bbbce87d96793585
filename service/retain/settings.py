"""All settings, and the only module that reads the environment or the configuration file.

Order: an explicit value (a flag or an argument), then `RETAIN_*` in the environment, then `retain.toml`, then the
default. The file is the one named by `--config` or `RETAIN_CONFIG`, else the one in the platform's configuration
folder. The working directory is not looked at: a file that came with somebody's checkout could send memories and the
API key elsewhere.
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from retain.domain.errors import InvalidInputError
from retain.domain.ids import shortened
from retain.domain.scoring import USUAL
from retain.domain.text import MAX_CONTENT_CHARS
from retain.domain.time_range import load_zone

Source = Literal["argument", "environment", "file", "default"]
APP = "retain"
CONFIG_VARIABLE = "RETAIN_CONFIG"
CONFIG_NAME = "retain.toml"
_OTHER_PREFIXES = ("RETAIN_HOOKS_", "RETAIN_EVALS_")


def default_database_url() -> str:
    """Return the URL of `memories.db` in the platform's data folder."""
    return f"sqlite:///{Path(platformdirs.user_data_dir(APP, appauthor=False)) / 'memories.db'}"


def default_cache_dir() -> str:
    """Return the platform's cache folder, for models from a hub."""
    return platformdirs.user_cache_dir(APP, appauthor=False)


class Settings(BaseModel):
    """One value for each setting; immutable. `RETAIN_` and the upper-case name is the environment variable."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database_url: str = Field(
        default_factory=default_database_url,
        description="Where memories are kept: sqlite:///PATH or a plain path.",
    )
    embedding: str = Field(
        default="default",
        description="The model: default (built in), a folder, hub:OWNER/NAME, or the URL of an OpenAI-compatible "
        "endpoint followed by #MODEL.",
    )
    embedding_api_key: SecretStr | None = Field(default=None, description="Key for an embedding endpoint.")
    cache_dir: str = Field(default_factory=default_cache_dir, description="Folder for models fetched from a hub.")
    hub_url: str = Field(default="https://huggingface.co", description="The hub that hub: models come from.")
    offline: bool = Field(default=False, description="Never fetch anything; a model that is missing is an error.")
    host: str = Field(default="127.0.0.1", description="Address to listen on. Beyond loopback it takes an API key.")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        default=8000, description="Port to listen on, 0 to 65535; 0 takes a free one."
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="Further Host names that requests may carry, for a proxy or a name of your own.",
    )
    cors_origins: tuple[str, ...] = Field(default=(), description="Origins whose web pages may call the service.")
    timezone: str = Field(default="UTC", description="Zone in which time words such as yesterday are read.")
    max_content_chars: Annotated[int, Field(ge=100, le=1_000_000)] = Field(
        default=MAX_CONTENT_CHARS,
        description="Longest content of one memory, in characters, 100 to 1,000,000.",
    )
    recall_keyword_weight: Annotated[float, Field(ge=0, le=10)] = Field(
        default=USUAL.keyword,
        description="What words count in hybrid recall, 0 to 10; meaning counts 1.",
    )
    recall_related_weight: Annotated[float, Field(ge=0, le=10)] = Field(
        default=USUAL.related,
        description="What nearness to the best answers counts in hybrid recall, 0 to 10.",
    )
    recall_surroundings: Annotated[float, Field(ge=0, le=1)] = Field(
        default=USUAL.surroundings,
        description="How much of what stands around a passage in its conversation counts, 0 to 1.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="How much is logged, to stderr; content only at debug."
    )
    url: str | None = Field(
        default=None,
        description="A running service that the command line talks to instead of opening the database.",
    )
    api_key: SecretStr | None = Field(default=None, description="Key that clients send to a service.")

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        load_zone(value, field="timezone")
        return value

    @field_validator("log_level", mode="before")
    @classmethod
    def _in_lower_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("url")
    @classmethod
    def _http_only(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return value

    @field_validator("allowed_hosts", "cors_origins", mode="before")
    @classmethod
    def _from_commas(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("cors_origins")
    @classmethod
    def _as_browsers_send_it(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(origin.rstrip("/") for origin in value)


@dataclass(frozen=True, slots=True)
class SettingsWithSources:
    """The settings, where each value came from, and the file that was read.

    Attributes:
        unknown: Names in the environment that begin like a setting and are none, each with the setting that it
            resembles, if any.
    """

    settings: Settings
    sources: Mapping[str, Source]
    file: Path | None
    unknown: Mapping[str, str | None]

    @classmethod
    def read(
        cls,
        arguments: Mapping[str, object] | None = None,
        /,
        *,
        environment: Mapping[str, str] | None = None,
        config_file: str | None = None,
    ) -> Self:
        """Read all settings once; arguments that are None were not given.

        Args:
            arguments: Values by setting name; they win over everything else.
            environment: Instead of the process's own.
            config_file: Instead of the file that `RETAIN_CONFIG` names.

        Raises:
            InvalidInputError: a value is impossible or a name unknown; the message names it, its source and its range.
        """
        environment = os.environ if environment is None else environment
        file = _config_file(environment, config_file)
        layers: list[tuple[Source, Mapping[str, Any]]] = [
            ("file", _read_toml(file) if file else {}),
            ("environment", _from_environment(environment)),
            ("argument", {name: value for name, value in (arguments or {}).items() if value is not None}),
        ]
        values: dict[str, Any] = {}
        sources: dict[str, Source] = dict.fromkeys(Settings.model_fields, "default")
        for source, layer in layers:
            values.update(layer)
            sources.update(dict.fromkeys(layer, source))
        return cls(_validated(values, sources, file), sources, file, _unknown_variables(environment))


def user_config_file() -> Path:
    """Return where the user's own settings file is, if there is one."""
    return Path(platformdirs.user_config_dir(APP, appauthor=False)) / CONFIG_NAME


def environment_name(setting: str) -> str:
    """Return the environment variable of a setting: `database_url` is `RETAIN_DATABASE_URL`."""
    return f"{APP.upper()}_{setting.upper()}"


def is_secret(setting: str) -> bool:
    """Whether the value of a setting must never be shown."""
    return "SecretStr" in str(Settings.model_fields[setting].annotation)


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    names = {environment_name(name): name for name in Settings.model_fields}
    return {names[key]: value for key, value in environment.items() if key in names and value != ""}


def _unknown_variables(environment: Mapping[str, str]) -> dict[str, str | None]:
    known = [*map(environment_name, Settings.model_fields), CONFIG_VARIABLE]
    suspects = (
        name
        for name in sorted(environment)
        if name.startswith(f"{APP.upper()}_") and name not in known and not name.startswith(_OTHER_PREFIXES)
    )
    return {name: _nearest(name, known) for name in suspects}


def _nearest(name: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.8)), None)


def _config_file(environment: Mapping[str, str], given: str | None) -> Path | None:
    named, by = (given, "--config") if given else (environment.get(CONFIG_VARIABLE), CONFIG_VARIABLE)
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise InvalidInputError(f"{by} names {shortened(named, 200)}, which is no file", field=by)
        return path
    own = user_config_file()
    return own if own.is_file() else None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInputError(f"can't read the settings in {path}: {error}", field=str(path)) from None


def _validated(values: Mapping[str, Any], sources: Mapping[str, Source], file: Path | None) -> Settings:
    try:
        return Settings.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        raise InvalidInputError(
            _explained(name, sources[name], file, first["msg"], first["input"]), field=name
        ) from None


def _explained(name: str, source: Source, file: Path | None, problem: str, value: object) -> str:
    """Return one line that names a setting, its source, its value and what it may be."""
    shown, origin = {
        "environment": (environment_name(name), "the environment"),
        "file": (name, str(file)),
        "argument": (name, "an argument"),
        "default": (name, "the default"),
    }[source]
    if name not in Settings.model_fields:
        nearest = _nearest(name, Settings.model_fields)
        hint = f"did you mean {nearest}?" if nearest else f"known are: {', '.join(sorted(Settings.model_fields))}"
        return f"{shown}, from {origin}, is no setting; {hint}"
    problem = problem.removeprefix("Value error, ").removeprefix(f"{name}: ").removesuffix(".")
    got = "" if is_secret(name) else f" (got {shortened(value)})"
    return f"setting {shown}, from {origin}: {problem}{got}. {Settings.model_fields[name].description}"
