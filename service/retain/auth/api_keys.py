"""API keys: made and revoked by the command line, kept as SHA-256 only, turned into principals."""

import hashlib
import secrets
from dataclasses import dataclass

from retain.core.policy import LOCAL_USER, MAX_AGENT_CHARS, Principal
from retain.core.ports import Clock, KeyStore, StoredKey
from retain.domain.errors import InvalidInputError, NotAuthenticatedError, NotFoundError
from retain.domain.text import clean_name, normalise_namespace

PREFIX = "rtn_"
KEY_BYTES = 32  # 256 bits of randomness: no salt or slow hash is needed for what can't be guessed


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """The keys of one database."""

    store: KeyStore
    clock: Clock

    async def create(
        self, name: str, /, *, namespace: str = "/", can_write: bool = False, agent_id: str | None = None
    ) -> str:
        """Make a key and return it; this is the only time that it can be seen.

        Raises:
            InvalidInputError: the name, namespace or agent id is impossible.
            ConflictError: a key of that name exists.
        """
        if name == LOCAL_USER.name:
            raise InvalidInputError(f"the name {name!r} stands for callers without a key; choose another", field="name")
        key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
        await self.store.add_key(
            StoredKey(
                name=clean_name(name, field="name", limit=80),
                digest=digest(key),
                namespace=normalise_namespace(namespace),
                can_write=can_write,
                agent_id=None if agent_id is None else clean_name(agent_id, field="agent_id", limit=MAX_AGENT_CHARS),
                created_at=self.clock(),
            )
        )
        return key

    async def principal_of(self, key: str, /) -> Principal:
        """Return on whose behalf a request with `key` is made.

        Raises:
            NotAuthenticatedError: the key is unknown or revoked.
        """
        found = await self.store.find_key(digest(key))
        if found is None:
            raise NotAuthenticatedError("the API key is unknown or revoked; make one with: retain keys create NAME")
        return Principal(found.name, found.namespace, found.can_write, found.agent_id)

    async def all(self) -> list[StoredKey]:
        """Return all keys, oldest first, without their secrets."""
        return await self.store.list_keys()

    async def revoke(self, name: str, /) -> None:
        """Make the key of that name worthless at once.

        Raises:
            NotFoundError: there is none.
        """
        if not name:
            raise InvalidInputError("name the key to revoke", field="name")
        if not await self.store.remove_key(name):
            raise NotFoundError(f"there is no key named {name!r}; retain keys list shows them", field="name")


def digest(key: str, /) -> str:
    """Return the SHA-256 of a key as hex."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
