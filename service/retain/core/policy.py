"""Who may do what, where. The one place that decides; every way in passes through it."""

from dataclasses import dataclass, replace

from retain.domain.errors import PermissionDeniedError
from retain.domain.memory import Filter, Memory
from retain.domain.text import ROOT, is_within, normalise_namespace

AGENT_TAG_PREFIX = "agent:"
MAX_AGENT_CHARS = 64
"""Longest agent id, by whichever way it comes: header, field or key."""


@dataclass(frozen=True, slots=True)
class Principal:
    """On whose behalf a call is made. What lies outside `namespace` does not exist for it.

    Attributes:
        name: Shown in logs and used to keep idempotency keys of different callers apart.
        namespace: All it may see: this namespace and below.
        can_write: Whether it may store, change and delete.
        agent_id: When set, the only agent it may speak for.
    """

    name: str
    namespace: str = ROOT
    can_write: bool = True
    agent_id: str | None = None

    def require_write(self) -> None:
        """Raise PermissionDeniedError unless the principal may write."""
        if not self.can_write:
            raise PermissionDeniedError(f"the key {self.name!r} may only read; use one created with --read-write")

    def namespace_for(self, wanted: str | None, /) -> str:
        """Return the namespace meant by `wanted`: the principal's own when None.

        Raises:
            PermissionDeniedError: `wanted` lies outside; nothing is said of what may be there.
        """
        if wanted is None or wanted == "":
            return self.namespace
        namespace = normalise_namespace(wanted)
        if not is_within(namespace, self.namespace):
            raise PermissionDeniedError(
                f"the key {self.name!r} is bound to the namespace {self.namespace}; {namespace} lies outside",
                field="namespace",
            )
        return namespace

    def may_see(self, memory: Memory, /) -> bool:
        """Whether `memory` exists for this principal."""
        return is_within(memory.namespace, self.namespace)

    def narrow(self, where: Filter, /) -> Filter:
        """Return `where` restricted to what the principal may see."""
        return replace(where, namespace=self.namespace_for(where.namespace))

    def agent_for(self, claimed: str | None, /) -> str | None:
        """Return the agent a call speaks for: the claimed one, which must be the principal's own if it has one.

        Raises:
            PermissionDeniedError: the principal is bound to another agent.
        """
        if self.agent_id is None or claimed == self.agent_id:
            return claimed
        if claimed is None:
            return self.agent_id
        raise PermissionDeniedError(
            f"the key {self.name!r} speaks for the agent {self.agent_id!r}, not {claimed!r}", field="agent_id"
        )

    def require_own_agent_tags(self, tags: tuple[str, ...], /) -> None:
        """Refuse `agent:` tags of other agents, so that such a tag can be trusted.

        Raises:
            PermissionDeniedError: the principal is bound to an agent and a tag names another one.
        """
        if self.agent_id is None:
            return
        for tag in tags:
            if tag.startswith(AGENT_TAG_PREFIX):
                self.agent_for(tag.removeprefix(AGENT_TAG_PREFIX))


LOCAL_USER = Principal("local")
"""Whoever owns the file: the in-process library, the CLI, stdio MCP, and loopback HTTP without keys."""
