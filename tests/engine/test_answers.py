"""What the client answers: what the profile says, in the order of its script, and nothing that it did not declare."""

import pytest

from harness.engine.answers import Answers, Question, Reply, contains
from harness.model.plan import AnswerSpec, ProfileSpec, RootSpec, SampleSpec

pytestmark = pytest.mark.anyio

CONFIRM = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
NAME = {"type": "object", "properties": {"name": {"type": "string", "minLength": 3}}, "required": ["name"]}


def form(message="Really?", schema=CONFIRM, target="tools/call delete", **more):
    params = {"message": message, "requestedSchema": schema, **more}
    return Question(method="elicitation/create", params=params, target=target)


def url(message="Log in", **more):
    params = {"mode": "url", "message": message, "url": "https://example.org/", "elicitationId": "1", **more}
    return Question(method="elicitation/create", params=params, target="tools/call pay")


def sample(text="What is the capital?", **more):
    content = {"type": "text", "text": text}
    params = {"messages": [{"role": "user", "content": content}], "maxTokens": 10, **more}
    return Question(method="sampling/createMessage", params=params, target="tools/call ask")


def profile(**more):
    return ProfileSpec(name="p", **more)


@pytest.mark.parametrize(
    ("settings", "declared"),
    [
        ({}, {}),
        ({"elicit": "decline"}, {"elicitation": {"form": {}}}),
        ({"elicit": "accept", "elicit_modes": ("form", "url")}, {"elicitation": {"form": {}, "url": {}}}),
        ({"answers": (AnswerSpec(),), "elicit_modes": ("url",)}, {"elicitation": {"url": {}}}),
        ({"sampling": (SampleSpec(),)}, {"sampling": {}}),
        ({"sampling": (SampleSpec(),), "sampling_tools": True}, {"sampling": {"tools": {}}}),
        ({"roots": ()}, {"roots": {}}),
        ({"log_level": "debug", "progress": True}, {}),
    ],
)
def test_exactly_what_was_asked_for_is_declared(settings, declared):
    assert Answers(profile(**settings)).capabilities == declared


@pytest.mark.parametrize(
    ("settings", "question", "code"),
    [
        ({}, form(), -32601),
        ({}, sample(), -32601),
        ({}, Question(method="roots/list"), -32601),
        ({"elicit": "accept"}, sample(), -32601),
        ({"elicit": "accept"}, Question(method="tools/list"), -32601),
        ({"elicit": "accept"}, Question(method="elicitation/create", params={"mode": ["form"]}), -32602),
        ({"elicit": "accept"}, url(), -32602),
        ({"elicit": "accept", "elicit_modes": ("url",)}, form(), -32602),
        ({"sampling": (SampleSpec(text="x"),)}, sample(tools=[]), -32602),
        ({"sampling": (SampleSpec(text="x"),)}, sample(toolChoice={"mode": "auto"}), -32602),
        ({"elicit": "accept"}, Question(method="elicitation/other"), -32602),
    ],
)
def test_what_was_not_declared_is_refused_with_the_code_of_the_specification(settings, question, code):
    reply = Answers(profile(**settings)).answer(question)
    assert (reply.error["code"], reply.by) == (code, "nothing")


def test_a_plain_answer_is_the_same_for_every_form():
    for action in ("accept", "decline", "cancel"):
        content = {"content": {"confirm": True}} if action == "accept" else {}
        assert Answers(profile(elicit=action)).answer(form()) == Reply(
            result={"action": action, **content}, by="elicit"
        )


def test_a_url_is_answered_without_content():
    answers = Answers(profile(elicit="accept", elicit_modes=("form", "url"), answers=(AnswerSpec(content={"a": 1}),)))
    assert answers.answer(url()).result == {"action": "accept"}
    plain = Answers(profile(elicit="accept", elicit_modes=("url",)))
    assert plain.answer(url()).result == {"action": "accept"}


@pytest.mark.parametrize(
    ("spec", "question", "fits"),
    [
        (AnswerSpec(message="[Rr]eally"), form(), True),
        (AnswerSpec(message="^really"), form(), False),
        (AnswerSpec(tool="delete"), form(), True),
        (AnswerSpec(tool="del"), form(), False),
        (AnswerSpec(mode="url"), form(), False),
        (AnswerSpec(fields=("confirm",)), form(), True),
        (AnswerSpec(fields=("confirm", "name")), form(), False),
        (AnswerSpec(schema={"properties": {"confirm": {"type": "boolean"}}}), form(), True),
        (AnswerSpec(schema={"properties": {"confirm": {"type": "string"}}}), form(), False),
        (AnswerSpec(schema={"required": ["confirm"]}), form(), True),
        (AnswerSpec(tool="delete", message="Sure"), form(), False),
        (AnswerSpec(), form(), True),
        (AnswerSpec(fields=("confirm",)), form(schema="none"), False),
    ],
)
def test_an_answer_is_given_to_a_prompt_that_it_meets_in_all_that_it_names(spec, question, fits):
    reply = Answers(profile(elicit="cancel", answers=(spec,))).answer(question)
    assert reply.by == ("answers[0]" if fits else "elicit")
    assert reply.result["action"] == ("accept" if fits else "cancel")


def test_the_first_answer_that_fits_is_given_and_as_often_as_it_says_in_each_case():
    answers = Answers(
        profile(answers=(AnswerSpec(content={"name": "", "x": 1}, times=1), AnswerSpec(fields=("name",))))
    )
    given = [answers.answer(form(schema=NAME)) for _ in range(2)]
    assert [(item.result["content"], item.by) for item in given] == [
        ({"name": "", "x": 1}, "answers[0]"),
        ({"name": "xxx"}, "answers[1]"),
    ]
    assert answers.answer(form()) == Reply(result={"action": "decline"}, by="no scripted answer")
    answers.begin()
    assert answers.answer(form(schema=NAME)).by == "answers[0]"


def test_equal_answers_are_counted_apart():
    once = AnswerSpec(times=1)
    answers = Answers(profile(elicit="cancel", answers=(once, AnswerSpec(times=1))))
    assert [answers.answer(form()).by for _ in range(3)] == ["answers[0]", "answers[1]", "elicit"]


def test_sampling_is_answered_in_the_place_of_a_model():
    tool = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
    script = (
        SampleSpec(message="capital", text="Paris", model="m", stop_reason="maxTokens"),
        SampleSpec(message="use a tool", content=(tool,), stop_reason="toolUse"),
        SampleSpec(message="be brief", text="yes"),
        SampleSpec(message="two", content=(tool, tool)),
        SampleSpec(message="never"),
    )
    answers = Answers(profile(sampling=script, sampling_tools=True))
    text = {"type": "text", "text": "Paris"}
    assert answers.answer(sample()).result == {
        "role": "assistant", "content": text, "model": "m", "stopReason": "maxTokens"
    }  # fmt: skip
    assert answers.answer(sample("use a tool", tools=[])).result["content"] == tool
    assert answers.answer(sample("x", systemPrompt="be brief")).result["content"]["text"] == "yes"
    assert answers.answer(sample("two")).result["content"] == [tool, tool]
    assert answers.answer(sample("never")).error == {"code": -1, "message": "User rejected sampling request"}
    assert answers.answer(sample("else")).error["code"] == -1


def test_roots_are_those_of_the_profile():
    roots = (RootSpec(uri="file:///a"), RootSpec(uri="file:///b", name="B"))
    reply = Answers(profile(roots=roots)).answer(Question(method="roots/list"))
    assert reply.result == {"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "B"}]}
    assert Answers(profile(roots=())).answer(Question(method="roots/list")).result == {"roots": []}


async def test_a_function_goes_before_the_script_and_what_it_raises_is_kept():
    asked = []

    def hook(question):
        asked.append((question.message, question.subject, question.mode))
        if question.message == "no":
            raise LookupError("no such answer")
        return {"Really?": {"action": "accept"}, "else": {"action": "accept", "content": {"a": 1}}}.get(
            question.message
        )

    answers = Answers(profile(elicit="cancel"), hook=hook)
    assert answers.answer(form()) == Reply(result={"action": "accept", "content": {"confirm": True}}, by="the test")
    assert answers.answer(form("else")).result == {"action": "accept", "content": {"a": 1}}
    assert answers.answer(form("script")).by == "elicit"
    assert answers.answer(form("no")).error == {"code": -32603, "message": "the answering function raised LookupError"}
    assert [str(item) for item in answers.failures] == ["no such answer"]
    assert asked[0] == ("Really?", "delete", "form")

    async def later(question):
        if question.message == "no":
            raise LookupError("later")
        return {"action": "decline"}

    answers = Answers(profile(), hook=later, capabilities={"elicitation": {"form": {}}})
    assert (await answers.answer(form())).result == {"action": "decline"}
    assert (await answers.answer(form("no"))).error["code"] == -32603
    assert answers.answer(sample()).error["code"] == -32601


@pytest.mark.parametrize(
    ("whole", "part", "holds"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": {"b": 1}}, False),
        ({}, {}, True),
    ],
)
def test_a_fragment_is_contained_where_each_of_its_keys_is(whole, part, holds):
    assert contains(whole, part) is holds
