"""Systems by name, as a command line gives them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast, get_args

from retain import InvalidInputError
from retain_evals.systems.bm25 import Bm25
from retain_evals.systems.external import External
from retain_evals.systems.retain_memory import RecallMode, RetainMemory
from retain_evals.systems.system import System

FORMS: Final = "retain, retain:semantic, retain:keyword, retain,SETTING=VALUE, bm25, command:LINE, http://…"
_LABELLED: Final = re.compile(r"(?P<label>[\w.-]+)=(?P<named>.+)", re.DOTALL)
_RECALL_MODES: Final[tuple[str, ...]] = get_args(RecallMode)


@dataclass(frozen=True, slots=True)
class Access:
    """How systems called retain are reached; see `RetainMemory`."""

    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    cache: Path | None = None
    overrides: Mapping[str, str] = field(default_factory=dict[str, str])


def system_named(text: str, access: Access, /) -> System:
    """Return a system by its name: one of `FORMS`, or `LABEL=` and one of them.

    Raises:
        InvalidInputError: there is no such system, or it can't be had this way.
    """
    labelled = _LABELLED.fullmatch(text)
    label, named = (labelled["label"], labelled["named"]) if labelled else (None, text)
    if named == "bm25":
        return Bm25(label=label or "bm25")
    if named.startswith(("http://", "https://")):
        return External(named, label=label or "http")
    kind, _, rest = named.partition(":")
    if kind == "command":
        return External(rest, label=label or "command")
    name, *settings = named.split(",")
    if name.partition(":")[0] == "retain":
        return _retain(name, settings, label, access)
    raise InvalidInputError(f"there is no system {text!r}; give one of {FORMS}, or LABEL= before it", field="system")


def _retain(name: str, settings: list[str], label: str | None, access: Access) -> RetainMemory:
    mode = name.partition(":")[2] or "hybrid"
    if mode not in _RECALL_MODES:
        raise InvalidInputError(
            f"{name} is no recall mode; give retain:{' or retain:'.join(_RECALL_MODES)}", field="system"
        )
    overrides = {**access.overrides, **settings_of(settings)}
    if access.url is not None and overrides:
        raise InvalidInputError(
            f"the service at {access.url} has settings of its own; start it with {', '.join(overrides)} instead",
            field="set",
        )
    recall_mode = cast("RecallMode", mode)
    return RetainMemory(
        recall_mode, url=access.url, api_key=access.api_key, cache=access.cache, overrides=overrides, label=label
    )


def settings_of(given: list[str], /) -> dict[str, str]:
    """Return settings given as NAME=VALUE.

    Raises:
        InvalidInputError: one has another form. Whether the setting exists shows when the system is opened.
    """
    settings: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise InvalidInputError(f"{each!r} is no setting; write NAME=VALUE", field="set")
        settings[name] = value
    return settings
