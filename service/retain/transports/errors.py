"""The one table from errors to what each way in shows: HTTP status and exit code. MCP sends the code and message."""

from dataclasses import dataclass

from retain.domain.errors import RetainError


@dataclass(frozen=True, slots=True)
class Rendering:
    """How one kind of error is shown.

    Attributes:
        status: HTTP status.
        exit_code: Exit code of the command line; 2 is left to wrong usage.
        title: The fixed title of an RFC 9457 problem document.
    """

    status: int
    exit_code: int
    title: str


RENDERINGS: dict[str, Rendering] = {
    "error": Rendering(500, 1, "Something went wrong"),
    "invalid_input": Rendering(422, 2, "The request is not valid"),
    "too_large": Rendering(413, 2, "Too large"),
    "not_found": Rendering(404, 3, "Not found"),
    "conflict": Rendering(409, 4, "Conflict"),
    "not_authenticated": Rendering(401, 5, "Not authenticated"),
    "permission_denied": Rendering(403, 5, "Permission denied"),
    "capability": Rendering(501, 6, "Not available here"),
    "embedding": Rendering(503, 7, "The embedding model failed"),
    "model_mismatch": Rendering(409, 7, "The database has another embedding model"),
    "store": Rendering(500, 8, "The database failed"),
    "store_unavailable": Rendering(503, 8, "The database or service is not available"),
    "store_corrupt": Rendering(500, 8, "The database is damaged"),
}
"""By error code, see `retain.domain.errors`."""


def rendering(error: RetainError, /) -> Rendering:
    """Return how `error` is shown."""
    return RENDERINGS[error.code]
