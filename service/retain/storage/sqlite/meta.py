"""What the database says of itself: its model, and how often its passages were replaced as a whole."""

from retain.domain.errors import ModelMismatchError
from retain.domain.memory import Model
from retain.storage.sqlite.connection import Connection, Value


def get(connection: Connection, name: str, /) -> Value:
    """Return a value, or None."""
    return connection.value("SELECT value FROM meta WHERE name = ?", (name,))


def put(connection: Connection, name: str, value: Value, /) -> None:
    """Set a value; None removes it."""
    if value is None:
        connection.run("DELETE FROM meta WHERE name = ?", (name,))
    else:
        connection.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def model(connection: Connection, prefix: str = "", /) -> Model | None:
    """Return the model of the stored vectors (with prefix "next_": of those being built)."""
    name, size = get(connection, f"{prefix}model"), get(connection, f"{prefix}dimensions")
    return Model(name, size) if isinstance(name, str) and isinstance(size, int) else None


def set_model(connection: Connection, value: Model | None, prefix: str = "", /) -> None:
    """Remember the model of the vectors."""
    put(connection, f"{prefix}model", None if value is None else value.id)
    put(connection, f"{prefix}dimensions", None if value is None else value.dimensions)


def model_in_use(connection: Connection, /) -> Model | None:
    """Return the model whose vectors the store holds; None while it holds none."""
    return model(connection) if connection.value("SELECT 1 FROM passage LIMIT 1") else None


def adopt_model(connection: Connection, wanted: Model, /) -> None:
    """Make sure that vectors of `wanted` may be written.

    Raises:
        ModelMismatchError: there are vectors of another model.
    """
    stored = model(connection)
    if stored == wanted:
        return
    require_model(model_in_use(connection), wanted)
    set_model(connection, wanted)
    new_generation(connection)


def require_model(stored: Model | None, wanted: Model | None, /) -> None:
    """Raise ModelMismatchError when vectors of `wanted` can't be compared with the stored ones."""
    if stored is None or wanted is None or stored == wanted:
        return
    raise ModelMismatchError(
        f"the database holds vectors of the model {stored.id!r} with {stored.dimensions} dimensions, but the "
        f"configured model is {wanted.id!r} with {wanted.dimensions}. Configure the first one, or switch with: "
        "retain reembed. Listing and keyword search go on working"
    )


def generation(connection: Connection, /) -> int:
    """Return the number that grows whenever all passages were replaced."""
    value = get(connection, "generation")
    return value if isinstance(value, int) else 0


def new_generation(connection: Connection, /) -> None:
    """Make every process load its index anew; cells of the passages before mean nothing any more."""
    connection.run("DELETE FROM cell")
    for name in ("cells_trained", "cells_last"):
        put(connection, name, None)
    put(connection, "generation", generation(connection) + 1)
