"""What the tools of the conformance fixture ask of a client."""

import json
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]

Requests = dict[str, Message]


@dataclass(frozen=True)
class Asking:
    """`rounds` are asked one after the other; a sealed one carries state from round to round."""

    rounds: tuple[Requests, ...]
    sealed: bool = False
    prompt: bool = False
    only_declared: bool = False

    def first(self, params: Message, declared: Message) -> Requests:
        """With the arguments filled in, and without what the client cannot answer, where it matters."""
        arguments: Message = params.get("arguments") or {}
        requests: Requests = json.loads(json.dumps(self.rounds[0]))
        for request in requests.values():
            if "message" in arguments:
                request["params"]["message"] = arguments["message"]
            if "prompt" in arguments:
                request["params"]["messages"][0]["content"]["text"] = arguments["prompt"]
        if not self.only_declared:
            return requests
        return {
            key: request
            for key, request in requests.items()
            if request["method"].partition("/")[0] in declared
        }

    def done(self, answers: Message) -> Message:
        text = f"state-ok, answers: {json.dumps(answers)}"
        if self.prompt:
            return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
        return {"content": [{"type": "text", "text": text}]}


def form(message: str, required: list[str], **properties: Message) -> Message:
    schema: Message = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def sampling(text: str) -> Message:
    messages = [{"role": "user", "content": {"type": "text", "text": text}}]
    return {
        "method": "sampling/createMessage",
        "params": {"messages": messages, "maxTokens": 100},
    }


ROOTS: Message = {"method": "roots/list", "params": {}}
STRING: Message = {"type": "string"}
NAME = form("What is your name?", ["name"], name=STRING)
OPTIONS = ["option1", "option2", "option3"]
TITLED = [
    {"const": f"value{number}", "title": f"{word} Option"}
    for number, word in enumerate(("First", "Second", "Third"), 1)
]

QUESTIONS: dict[str, Asking] = {
    "test_sampling": Asking(({"answer": sampling("")},)),
    "test_elicitation": Asking(
        (
            {
                "answer": form(
                    "",
                    ["username", "email"],
                    username={"type": "string", "description": "User's response"},
                    email={"type": "string", "description": "User's email address"},
                )
            },
        )
    ),
    "test_elicitation_sep1034_defaults": Asking(
        (
            {
                "answer": form(
                    "Please review",
                    [],
                    name={"type": "string", "default": "John Doe"},
                    age={"type": "integer", "default": 30},
                    score={"type": "number", "default": 95.5},
                    status={
                        "type": "string",
                        "enum": ["active", "inactive", "pending"],
                        "default": "active",
                    },
                    verified={"type": "boolean", "default": True},
                )
            },
        )
    ),
    "test_elicitation_sep1330_enums": Asking(
        (
            {
                "answer": form(
                    "Please choose",
                    [],
                    untitledSingle={"type": "string", "enum": OPTIONS},
                    titledSingle={"type": "string", "oneOf": TITLED},
                    legacyEnum={
                        "type": "string",
                        "enum": ["opt1", "opt2", "opt3"],
                        "enumNames": ["Option One", "Option Two", "Option Three"],
                    },
                    untitledMulti={"type": "array", "items": {"type": "string", "enum": OPTIONS}},
                    titledMulti={"type": "array", "items": {"anyOf": TITLED}},
                )
            },
        )
    ),
    "test_streaming_elicitation": Asking(({"user_name": NAME},)),
    "test_input_required_result_elicitation": Asking(({"user_name": NAME},)),
    "test_input_required_result_sampling": Asking(
        ({"capital_question": sampling("What is the capital of France?")},)
    ),
    "test_input_required_result_list_roots": Asking(({"client_roots": ROOTS},)),
    "test_input_required_result_request_state": Asking(
        ({"confirm": form("Please confirm", ["ok"], ok={"type": "boolean"})},), sealed=True
    ),
    "test_input_required_result_multiple_inputs": Asking(
        ({"user_name": NAME, "greeting": sampling("Generate a greeting"), "client_roots": ROOTS},),
        sealed=True,
    ),
    "test_input_required_result_multi_round": Asking(
        (
            {"step1": form("Step 1: What is your name?", ["name"], name=STRING)},
            {"step2": form("Step 2: What is your favorite color?", ["color"], color=STRING)},
        ),
        sealed=True,
    ),
    "test_input_required_result_tampered_state": Asking(
        ({"confirm": form("Please confirm", ["ok"], ok={"type": "boolean"})},), sealed=True
    ),
    "test_input_required_result_capabilities": Asking(
        ({"name": NAME, "greeting": sampling("Generate a greeting")},), only_declared=True
    ),
    "test_input_required_result_prompt": Asking(
        (
            {
                "user_context": form(
                    "What context should the prompt use?", ["context"], context=STRING
                )
            },
        ),
        prompt=True,
    ),
}
