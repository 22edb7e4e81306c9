"""The stdio streams over real pipes: each invalid line is answered and the next one served."""

import time

import anyio
import pytest
from anyio import fail_after, wait_all_tasks_blocked

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire.stdio_server import InFlightRequests, StdioLimits
from tests.support.toy_client import ToyClient, serve_toy_server, until_steady, wait_until


def _build_error(id: Json, code: int, message: str) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def _build_echo(id: Json, arguments: JsonObject) -> JsonObject:
    content: Json = [{"type": "text", "text": "echo"}]
    result: JsonObject = {
        "content": content,
        "structuredContent": arguments,
        "vendorTop": {"n": None},
    }
    return {"jsonrpc": "2.0", "id": id, "result": result}


_ID = "Invalid Request: id must be a string or an integer"


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (b'{"a":', _build_error(None, -32700, "Parse error: not valid JSON: Input data was truncated")),
        (b'{"a":"\xff"}',
         _build_error(None, -32700, "Parse error: not valid UTF-8: invalid start byte")),
        (b"[" * 100_000, _build_error(None, -32700, "Parse error: nested deeper than 256 levels")),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
         _build_error(None, -32600, "Invalid Request: batches are not supported; "
                              "send one message per line")),
        (b"7", _build_error(None, -32600, "Invalid Request: expected a JSON object")),
        (b"{}", _build_error(None, -32600, "Invalid Request: expected a method, a result or an error")),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', _build_error(None, -32600, _ID)),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', _build_error(None, -32600, _ID)),
        (b'{"jsonrpc":"2.0","id":{},"result":{}}', _build_error(None, -32600, _ID)),
        (b'{"jsonrpc":"2.0","id":[1],"error":{"code":1,"message":""}}',
         _build_error(None, -32600, _ID)),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', _build_error(None, -32600, _ID)),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', _build_error(None, -32600, _ID)),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', _build_error(None, -32600, _ID)),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}',
         _build_error(1, -32600, "Invalid Request: params must be an object")),
        (b'{"id":1,"method":"ping"}',
         _build_error(1, -32600, 'Invalid Request: "jsonrpc" must be "2.0"')),
        (b"x" * 5001,
         _build_error(None, -32600, "Invalid Request: a message of 5001 bytes is over the limit "
                              "of 5000")),
    ],
    ids=lambda value: value[:40] if isinstance(value, bytes) else "",
)  # fmt: skip
async def test_an_odd_line_is_answered_and_the_next_call_served(
    line: bytes, answer: JsonObject
) -> None:
    limits = StdioLimits(line_bytes=200_000 if line.startswith(b"[[") else 5000)

    async with serve_toy_server(limits) as (client, _, _):
        await client.send(line)
        first = await client.answer()
        await client.call(2, "echo", {"n": 10**30})
        second = await client.answer()

    assert first == answer
    assert second == _build_echo(2, {"n": 10**30})


@pytest.mark.parametrize(
    "prefix", [b"", b"  ", b"\r", b"\xef\xbb\xbf", b'{"jsonrpc":"2.0","id":99,"result":[1]}\n']
)
async def test_crlf_blank_lines_a_byte_order_mark_and_stray_responses_are_tolerated(
    prefix: bytes,
) -> None:
    async with serve_toy_server() as (client, _, _):
        await client.send(b"\r\n\n", prefix + b'{"jsonrpc":"2.0","id":"a","method":"ping"}\r')
        answer = await client.answer()

    assert answer == {"jsonrpc": "2.0", "id": "a", "result": {}}


async def test_a_last_line_without_a_newline_is_served_before_the_end() -> None:
    async with serve_toy_server() as (client, _, _):
        await client.writer.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        await client.writer.send(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}')
        client.stop_writing()
        answer = await client.answer()

    assert answer == _build_error(1, -32600, "Invalid Request: params must be an object")


@pytest.mark.parametrize("again", [7, "7"])
async def test_an_id_already_in_flight_is_refused_until_it_is_free(again: Json) -> None:
    async with serve_toy_server() as (client, toys, _):
        await client.call(7, "wait")
        await client.call(again, "echo")
        refused = await client.answer()
        await client.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        )
        await toys.stopped.wait()
        await wait_all_tasks_blocked()
        await client.call(again, "echo")
        served_again = await client.answer()

    assert refused == _build_error(
        again, -32600, "Invalid Request: this id is already in flight; use a new one"
    )
    assert served_again == _build_echo(again, {})


async def test_requests_over_the_bound_are_refused_while_cancels_pass() -> None:
    async with serve_toy_server(StdioLimits(requests=2)) as (client, toys, _):
        await client.call(1, "wait")
        await client.call(2, "wait")
        await client.call(3, "echo")
        refused = await client.answer()
        await client.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        )
        await toys.stopped.wait()
        await wait_all_tasks_blocked()
        await client.call(4, "echo")
        answered = await client.answer()

    assert refused == _build_error(3, -32000, "too many requests in flight (2); wait for answers")
    assert answered == _build_echo(4, {})


async def test_the_bytes_of_requests_in_flight_are_bounded_too() -> None:
    async with serve_toy_server(StdioLimits(request_bytes=10_000)) as (client, _, _):
        await client.call(1, "wait", {"pad": "x" * 20_000})
        await client.call(2, "echo")
        refused = await client.answer()

    assert refused == _build_error(2, -32000, "too many requests in flight (1); wait for answers")


async def test_an_answer_without_a_json_form_becomes_an_error_for_its_request() -> None:
    async with serve_toy_server() as (client, _, _):
        await client.call(1, "surrogate")
        answer = await client.answer()

    match answer:
        case {"id": 1, "error": {"code": -32603, "message": str(message)}}:
            assert message.startswith("the answer has no JSON form: ")
        case _:
            raise AssertionError(answer)


async def test_progress_too_large_for_a_float_does_not_end_the_connection() -> None:
    hostile: JsonObject = {"progressToken": 1, "progress": 10**400}

    async with serve_toy_server() as (client, _, _):
        await client.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": hostile})
        refused = await client.answer()
        await client.call(1, "echo")
        answer = await client.answer()

    assert refused == _build_error(
        None, -32600, "Invalid Request: progress and total must fit a double"
    )
    assert answer == _build_echo(1, {})


async def test_at_the_end_of_input_a_call_in_flight_is_cancelled_and_answered() -> None:
    async with serve_toy_server() as (client, toys, _):
        await client.call(1, "wait")
        await toys.started.wait()
        client.stop_writing()
        answer = await client.answer()

    assert answer == _build_error(1, -32000, "Connection closed")
    assert toys.stopped.is_set()


async def test_a_cancelled_server_still_answers_what_is_in_flight() -> None:
    answer: Json = None

    with anyio.CancelScope() as everything:
        async with serve_toy_server() as (client, toys, _):
            await client.call(1, "wait")
            await toys.started.wait()
            everything.cancel()
            with anyio.CancelScope(shield=True):
                answer = await client.answer()

    assert answer == _build_error(1, -32000, "Connection closed")


async def test_a_broken_answer_to_our_question_fails_the_call_that_asked() -> None:
    async with serve_toy_server() as (client, _, _):
        await client.call(1, "ask")
        question = await client.answer()
        assert isinstance(question, dict)
        await client.send({"jsonrpc": "2.0", "id": question["id"], "result": "yes"})
        answer = await client.answer()

    assert question["method"] == "elicitation/create"
    assert answer == _build_error(1, -32600, "Invalid Request: result must be an object")


async def test_the_end_of_a_file_does_not_wait_for_requests_that_never_end() -> None:
    in_flight = InFlightRequests(max_requests=10, max_bytes=1000)
    settled = anyio.Event()

    async def wait() -> None:
        await in_flight.wait_until_settled()
        settled.set()

    in_flight.add(1, "subscriptions/listen", 10)
    in_flight.add("2", "tools/call", 10)
    with fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await wait_all_tasks_blocked()
            assert not settled.is_set()
            in_flight.remove(2)
            await settled.wait()

    assert len(in_flight) == 1


async def test_answers_already_given_are_written_after_the_end_of_input() -> None:
    async with serve_toy_server() as (client, _, stdio):
        await client.call(1, "big", {"size": 1_000_000})
        await wait_until(lambda: stdio.write_queue.queued_bytes > 1_000_000)
        client.stop_writing()
        with fail_after(5):
            answer = await client.answer()

    assert isinstance(answer, dict)
    assert answer["id"] == 1


async def test_a_cancelled_call_with_a_half_written_response_corrupts_no_line() -> None:
    cancel: JsonObject = {"requestId": 1}

    async with serve_toy_server() as (client, _, stdio):
        await client.call(1, "big", {"size": 1_000_000})
        await wait_until(lambda: stdio.write_queue.queued_bytes > 1_000_000)
        await client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel})
        before = stdio.write_queue.queued_bytes
        await client.call(2, "echo")
        await wait_until(lambda: stdio.write_queue.queued_bytes > before)
        answers = [await client.answer(), await client.answer()]

    assert [answer["id"] for answer in answers if isinstance(answer, dict)] == [1, 2]


async def test_a_broken_output_ends_the_reading_and_cancels_what_runs() -> None:
    async with serve_toy_server() as (client, toys, stdio):
        await client.call(1, "wait")
        await toys.started.wait()
        client.stop_reading()
        await client.call(2, "echo")
        await toys.stopped.wait()

        assert stdio.write_queue.broken


async def test_a_client_that_reads_nothing_holds_up_new_calls_but_not_the_reading() -> None:
    async with serve_toy_server(StdioLimits(queued_bytes=1_000_000)) as (client, _, stdio):
        for id in range(50):
            await client.call(id, "big", {"size": 500_000})
        await until_steady(lambda: stdio.write_queue.queued_bytes)
        waiting = stdio.write_queue.queued_bytes
        await client.send({"jsonrpc": "2.0", "id": "p", "method": "ping"})
        answers = [await client.answer() for _ in range(51)]

    # At most the bound, and one answer more for each of the four that may run at once.
    assert 1_000_000 <= waiting <= 1_000_000 + 4 * 501_000
    ids = [answer["id"] for answer in answers if isinstance(answer, dict)]
    assert sorted(map(str, ids)) == sorted(map(str, [*range(50), "p"]))


async def test_reading_pauses_while_a_client_does_not_read_its_error_responses() -> None:
    sent: list[int] = []
    answers: list[Json] = []
    stalled = waiting = 0

    async def send(client: ToyClient) -> None:
        for id in range(5000):
            await client.call(id, "echo")
            sent.append(id)

    async with serve_toy_server(StdioLimits(requests=1, queued_bytes=100_000)) as (
        client,
        _,
        stdio,
    ):
        await client.call("first", "wait")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, client)
            await until_steady(lambda: len(sent))
            stalled, waiting = len(sent), stdio.write_queue.queued_bytes
            answers += [await client.answer() for _ in range(5000)]

    assert 0 < stalled < 5000
    assert 100_000 <= waiting < 101_000
    text = "too many requests in flight (1); wait for answers"
    assert answers == [_build_error(id, -32000, text) for id in range(5000)]


async def _measure_seconds(client: ToyClient, id: int, tool: str, arguments: JsonObject) -> float:
    start = time.process_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.call, id, tool, arguments)
        answer = await client.answer()
        assert isinstance(answer, dict)
        assert answer["id"] == id
    return time.process_time() - start


@pytest.mark.parametrize("direction", ["request", "result"])
async def test_fifty_megabytes_take_time_linear_in_their_size(direction: str) -> None:
    def arguments(megabytes: int) -> tuple[str, JsonObject]:
        size = megabytes * 1_000_000
        return ("echo", {"pad": "x" * size}) if direction == "request" else ("big", {"size": size})

    async with serve_toy_server() as (client, _, _):
        ten = min([await _measure_seconds(client, n, *arguments(10)) for n in range(3)])
        fifty = min([await _measure_seconds(client, n, *arguments(50)) for n in range(2)])

    assert fifty / max(ten, 0.005) < 15  # five times the bytes; quadratic would be twenty-five
