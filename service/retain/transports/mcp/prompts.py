"""Prompts that people pick in their client: one brings memories into a conversation, one has lessons stored."""

from collections.abc import Mapping

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from retain.domain.errors import InvalidInputError
from retain.transports.json_text import whole_text
from retain.transports.mcp import answers
from retain.transports.mcp.features import Context, MemoryOf, PromptFeature
from retain.transports.mcp.rendering import DEFAULT_MAX_CHARS

_SAVE = """Look back over this conversation{about} and store what will still matter later with memory_store:
- one memory a fact, decision (with its reason), lesson or error (with its cause and fix), in words that make sense \
alone, with names, numbers and dates;
- type: decision, learning, error, pattern or observation; tags: project and topic;
- search first with memory_search; when a stored memory is outdated, give its id as supersedes.
Leave out secrets, what the code or its documentation says already, and what only matters today.
Then say in one line each what you stored."""


def prompts(memory_of: MemoryOf, /) -> tuple[PromptFeature, ...]:
    """Return all prompts."""

    async def recall_context(context: Context, arguments: Mapping[str, str]) -> GetPromptResult:
        topic = arguments.get("topic", "").strip()
        if not topic:
            raise InvalidInputError("topic is empty; say what to recall", field="topic")
        recall = await (await memory_of(context)).recall(topic)
        found = answers.found(recall, offset=0, max_chars=DEFAULT_MAX_CHARS).text
        return _said(
            f"What is remembered about {topic}",
            f"Use what is remembered about: {topic}\n\n{found}\n\n"
            "Say which memories you rely on, and where they contradict each other or what you see now.",
        )

    async def save_learnings(context: Context, arguments: Mapping[str, str]) -> GetPromptResult:
        topic = arguments.get("topic", "").strip()
        return _said("Store what was learned", _SAVE.format(about=f", as far as it concerns {topic}," if topic else ""))

    return (
        PromptFeature(
            Prompt(
                name="recall_context",
                description="Bring what is remembered about a topic into the conversation",
                arguments=[PromptArgument(name="topic", description="What to recall", required=True)],
            ),
            recall_context,
        ),
        PromptFeature(
            Prompt(
                name="save_learnings",
                description="Store what this conversation taught",
                arguments=[PromptArgument(name="topic", description="Only what concerns this", required=False)],
            ),
            save_learnings,
        ),
    )


def _said(description: str, text: str) -> GetPromptResult:
    return GetPromptResult(
        description=whole_text(description),
        messages=[PromptMessage(role="user", content=TextContent(text=whole_text(text)))],
    )
