"""The tools, prompts and resources that the conformance suite calls by name. Bodies are the least that it accepts."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp.server.subscriptions import SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    InputRequiredResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    Tool,
)

from retain.transports.mcp.features import Context, Features, PromptFeature, ResourceFeature, ToolFeature

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
Arguments = Mapping[str, Any]
Outcome = CallToolResult | InputRequiredResult
Body = Callable[[Context, Arguments], Awaitable[Outcome]]
OBJECT: dict[str, Any] = {"type": "object"}


def said(*content: Any, error: bool = False) -> CallToolResult:
    blocks = [TextContent(text=one) if isinstance(one, str) else one for one in content]
    return CallToolResult(content=blocks, is_error=error)


def fixed(*content: Any, error: bool = False) -> Body:
    async def body(context: Context, arguments: Arguments) -> Outcome:
        return said(*content, error=error)

    return body


def embedded(uri: str, kind: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=kind, text=text))


async def logging(context: Context, arguments: Arguments) -> Outcome:
    for step in ("started", "processing", "completed"):
        await context.session.send_log_message("info", step, related_request_id=context.request_id)
    return said("logged")


async def progress(context: Context, arguments: Arguments) -> Outcome:
    for step in (0, 50, 100):
        await context.session.report_progress(step, 100, f"Completed step {step} of 100")
    return said("done")


async def sampling(context: Context, arguments: Arguments) -> Outcome:
    answer = await context.session.create_message(
        [SamplingMessage(role="user", content=TextContent(text=str(arguments.get("prompt"))))],
        max_tokens=100,
        related_request_id=context.request_id,
    )
    content = answer.content
    return said(f"LLM response: {content.text if isinstance(content, TextContent) else content}")


def asking(schema: Mapping[str, Any], *, message: str = "Please answer") -> Body:
    async def body(context: Context, arguments: Arguments) -> Outcome:
        answer = await context.session.elicit_form(
            str(arguments.get("message", message)), {"type": "object", **schema}, related_request_id=context.request_id
        )
        return said(f"action={answer.action}, content={json.dumps(answer.content)}")

    return body


def choice(*names: str) -> list[dict[str, str]]:
    return [{"const": name, "title": f"The {name}"} for name in names]


DEFAULTS = {
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
}
ENUMS = {
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": choice("value1", "value2", "value3")},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": choice("value1", "value2", "value3")}},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option one", "Option two"]},
    }
}


async def missing_capability(context: Context, arguments: Arguments) -> Outcome:
    known = context.session.client_capabilities
    if known is None or known.sampling is None:
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "needs the client capability sampling", needed)
    return said("the client has the capability")


# Requests for input (2026-07-28): the first answer of a tool asks, the second, with the answers, is the result.

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def form(message: str, schema: Mapping[str, Any] = NAME) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sample(text: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": {"type": "text", "text": text}}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 50}}


ROOTS: dict[str, Any] = {"method": "roots/list", "params": {}}


def needs(requests: Mapping[str, Any], state: str | None = None) -> InputRequiredResult:
    form: dict[str, Any] = {"resultType": "input_required", "inputRequests": requests}
    return InputRequiredResult.model_validate(form if state is None else {**form, "requestState": state})


def given(context: Context) -> Mapping[str, Any]:
    return (context.params or {}).get("inputResponses") or {}


def state_of(context: Context) -> str | None:
    return (context.params or {}).get("requestState")


def input_needed(requests: Mapping[str, Any], state: str | None = None) -> Body:
    async def body(context: Context, arguments: Arguments) -> Outcome:
        answers = given(context)
        if requests.keys() <= answers.keys() and (state is None or state_of(context) == state):
            return said(f"state-ok: {json.dumps(answers)}")
        return needs(requests, state)

    return body


async def rounds(context: Context, arguments: Arguments) -> Outcome:
    answers, state = given(context), json.loads(state_of(context) or '{"round": 0}')
    if state["round"] == 1 and "step1" in answers:
        return needs({"step2": form("Step 2: Which colour?")}, json.dumps({"round": 2}))
    if state["round"] == 2 and "step2" in answers:
        return said("all rounds done")
    return needs({"step1": form("Step 1: What is your name?")}, json.dumps({"round": 1}))


async def tampered(context: Context, arguments: Arguments) -> Outcome:
    state = state_of(context)
    return needs({"confirm": form("Please confirm", OK)}, "round-1") if state is None else said(f"state-ok: {state}")


async def capabilities(context: Context, arguments: Arguments) -> Outcome:
    known = context.session.client_capabilities
    requests: dict[str, Any] = {}
    if known is None or known.sampling is not None:
        requests["sample"] = sample("Say hello")
    if known is None or known.elicitation is not None:
        requests["ask"] = form("What is your name?")
    return needs(requests, "by-capability")


SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {
        "street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}  # fmt: skip
REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


async def streaming_elicitation(context: Context, arguments: Arguments) -> Outcome:
    await context.session.report_progress(1, 2, "asking")
    return needs({"user_name": form("What is your name?")})


def announcing(bus: SubscriptionBus, event: ToolsListChanged | PromptsListChanged) -> Body:
    async def body(context: Context, arguments: Arguments) -> Outcome:
        await bus.publish(event)
        return said("announced")

    return body


def tool_bodies(bus: SubscriptionBus) -> dict[str, Body]:
    image = ImageContent(data=PNG, mime_type="image/png")
    prefix = "test_input_required_result_"
    return {
        "test_simple_text": fixed("This is a simple text response for testing."),
        "test_image_content": fixed(image),
        "test_audio_content": fixed(AudioContent(data=WAV, mime_type="audio/wav")),
        "test_embedded_resource": fixed(embedded("test://embedded-resource", "text/plain", "Embedded.")),
        "test_multiple_content_types": fixed(
            "Several kinds:", image, embedded("test://mixed-content-resource", "application/json", '{"value": 123}')
        ),
        "test_tool_with_logging": logging,
        "test_logging_tool": logging,
        "test_streaming_elicitation": streaming_elicitation,
        "test_tool_with_progress": progress,
        "test_error_handling": fixed("This tool intentionally returns an error for testing", error=True),
        "test_sampling": sampling,
        "test_elicitation": asking({"properties": {"response": {"type": "string"}}, "required": ["response"]}),
        "test_elicitation_sep1034_defaults": asking(DEFAULTS),
        "test_elicitation_sep1330_enums": asking(ENUMS),
        "test_missing_capability": missing_capability,
        "test_trigger_tool_change": announcing(bus, ToolsListChanged()),
        "test_trigger_prompt_change": announcing(bus, PromptsListChanged()),
        "json_schema_2020_12_tool": fixed("ok"),
        "test_x_mcp_header": fixed("ok"),
        f"{prefix}elicitation": input_needed({"user_name": form("What is your name?")}),
        f"{prefix}sampling": input_needed({"capital_question": sample("What is the capital of France?")}),
        f"{prefix}list_roots": input_needed({"client_roots": ROOTS}),
        f"{prefix}request_state": input_needed({"confirm": form("Please confirm", OK)}, "a-state"),
        f"{prefix}multiple_inputs": input_needed(
            {"user_name": form("Your name?"), "greeting": sample("Greet"), "client_roots": ROOTS}, "several"
        ),
        f"{prefix}multi_round": rounds,
        f"{prefix}tampered_state": tampered,
        f"{prefix}capabilities": capabilities,
    }


def prompt(name: str, get: Callable[[Context, Mapping[str, str]], Any], *arguments: str) -> PromptFeature:
    async def run(context: Context, given: Mapping[str, str]) -> GetPromptResult | InputRequiredResult:
        found = get(context, given)
        if isinstance(found, InputRequiredResult):
            return found
        return GetPromptResult(messages=[PromptMessage(role="user", content=content) for content in found])

    asked = [PromptArgument(name=argument, required=True) for argument in arguments]
    return PromptFeature(Prompt(name=name, description=name, arguments=asked), run)


def context_prompt(context: Context, arguments: Mapping[str, str]) -> Any:
    if "user_context" not in given(context):
        return needs({"user_context": form("Which context?")})
    return [TextContent(text=json.dumps(given(context)["user_context"]))]


def resource(definition: Resource | ResourceTemplate, contents: Callable[[str], Any]) -> ResourceFeature:
    async def read(context: Context, uri: str) -> ReadResourceResult | None:
        found = contents(uri)
        return None if found is None else ReadResourceResult(contents=[found])

    return ResourceFeature(definition, read)


def text_at(own: str, text: str) -> ResourceFeature:
    def contents(uri: str) -> TextResourceContents | None:
        return TextResourceContents(uri=uri, mime_type="text/plain", text=text) if uri == own else None

    return resource(Resource(uri=own, name=own, mime_type="text/plain"), contents)


def binary(uri: str) -> BlobResourceContents | None:
    if uri != "test://static-binary":
        return None
    return BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)


def templated(uri: str) -> TextResourceContents | None:
    if not (uri.startswith("test://template/") and uri.endswith("/data")):
        return None
    one = uri.removeprefix("test://template/").removesuffix("/data")
    return TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps({"id": one, "data": one}))


def fixtures(bus: SubscriptionBus) -> Features:
    """Return everything that the suite asks for."""
    schemas = {"json_schema_2020_12_tool": SCHEMA_2020_12, "test_x_mcp_header": REGION}
    return Features(
        tools=[
            ToolFeature(Tool(name=name, description=name, input_schema=schemas.get(name, OBJECT)), body)
            for name, body in tool_bodies(bus).items()
        ],
        prompts=[
            prompt("test_simple_prompt", lambda context, given: [TextContent(text="A simple prompt for testing.")]),
            prompt(
                "test_prompt_with_arguments",
                lambda context, given: [TextContent(text=f"arg1='{given['arg1']}', arg2='{given['arg2']}'")],
                "arg1",
                "arg2",
            ),
            prompt(
                "test_prompt_with_embedded_resource",
                lambda context, given: [embedded(given["resourceUri"], "text/plain", "Embedded.")],
                "resourceUri",
            ),
            prompt(
                "test_prompt_with_image",
                lambda context, given: [ImageContent(data=PNG, mime_type="image/png"), TextContent(text="Look.")],
            ),
            prompt("test_input_required_result_prompt", context_prompt),
        ],
        resources=[
            text_at("test://static-text", "This is the content of the static text resource."),
            text_at("test://watched-resource", "Watched."),
            resource(Resource(uri="test://static-binary", name="binary", mime_type="image/png"), binary),
            resource(ResourceTemplate(uri_template="test://template/{id}/data", name="template"), templated),
        ],
    )
