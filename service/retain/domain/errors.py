"""Every error that Retain raises on purpose.

    RetainError
    ├── InvalidInputError (also ValueError)   the request itself is wrong; `field` names the part
    │   └── TooLargeError                     a text, batch or answer over a documented limit
    ├── NotFoundError                         no such memory, key or tag that the caller may see
    ├── ConflictError                         the request clashes with what is stored
    ├── PermissionDeniedError                 the caller is known and may not do this
    ├── NotAuthenticatedError                 the caller did not say, or could not prove, who it is
    ├── CapabilityError                       this store or build lacks the feature
    ├── EmbeddingError                        the model failed, is missing or is not the database's own
    │   └── ModelMismatchError                the database was written with another model
    └── StoreError                            the database failed
        ├── StoreUnavailableError             busy, full, locked or unreachable: the only one worth retrying
        └── StoreCorruptError                 the file is damaged or not a Retain database

Messages say what is wrong, which field, and what to do. `code` is stable and is what programs should test.
"""

from typing import ClassVar


class RetainError(Exception):
    """Base of all errors here. `str(error)` is one sentence for people; `code` is for programs."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, /, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidInputError(RetainError, ValueError):
    """A value is impossible or not understood; `field` names it."""

    code = "invalid_input"


class TooLargeError(InvalidInputError):
    """A text, tag list, batch or `k` is over its documented limit."""

    code = "too_large"


class NotFoundError(RetainError):
    """Nothing under that name or id that the caller may see."""

    code = "not_found"


class ConflictError(RetainError):
    """The request clashes with the stored state, for example an expected count that does not hold."""

    code = "conflict"


class PermissionDeniedError(RetainError):
    """The principal is known and lacks the right for this."""

    code = "permission_denied"


class NotAuthenticatedError(RetainError):
    """No credential, or one that is unknown or revoked."""

    code = "not_authenticated"


class CapabilityError(RetainError):
    """The store or the installation lacks the feature; the message names the way to get it."""

    code = "capability"


class EmbeddingError(RetainError):
    """The embedding model failed or can't be loaded; keyword search and listing go on working."""

    code = "embedding"


class ModelMismatchError(EmbeddingError):
    """The database holds vectors of another model; the message names both and the command to run."""

    code = "model_mismatch"


class StoreError(RetainError):
    """The database failed in a way that a retry does not mend."""

    code = "store"


class StoreUnavailableError(StoreError):
    """The database or service can't be reached or written at the moment: busy, full, locked, down."""

    code = "store_unavailable"
    retryable = True


class StoreCorruptError(StoreError):
    """The file is damaged, or is not a Retain database; `retain doctor` says more."""

    code = "store_corrupt"
