"""Scripts, records, and the paths beside those of the models."""

import gzip
import json
import threading

import pytest
import zstandard

from kit import Call, ModelServer, Request, Script, Step, redact
from kit.client import PATHS, ask, http, minimal

APIS = list(PATHS)


class TestScript:
    def test_steps_in_order_and_strings(self, model_server):
        server = model_server(["one", Step("two")])
        texts = [ask(server).json()["choices"][0]["message"]["content"] for _ in range(2)]
        assert texts == ["one", "two"]
        assert server.script.left == 0
        server.assert_finished()

    @pytest.mark.parametrize("api", APIS)
    def test_exhausted(self, model_server, api):
        server = model_server(["only one"], allow_problems=True)
        ask(server, api)
        reply = ask(server, api)
        message = "the script is exhausted: it has 1 step, all taken; this is request 2, with 1 messages"
        assert reply.status_code == 500
        assert reply.json()["error"]["message"] == f"test kit: {message}"
        assert reply.headers["x-should-retry"] == "false"
        assert server.problems == [message]
        assert server.requests[1].rejected == "exhausted"
        with pytest.raises(AssertionError, match="script is exhausted"):
            server.assert_finished()

    def test_not_finished(self, model_server):
        server = model_server(["one", "two"])
        ask(server)
        with pytest.raises(AssertionError, match="1 steps of the script were not taken"):
            server.assert_finished()

    @pytest.mark.parametrize("api", APIS)
    def test_function(self, model_server, api):
        def script(request):
            assert request.body["model"] == request.model == "m"
            return f"{request.api} {request.number} {request.turns} {len(request.messages)}"

        server = model_server(script)
        text = str(ask(server, api).json())
        assert f"{api} 1 0 1" in text
        assert server.script.left is None

    def test_function_that_fails(self, model_server):
        server = model_server(lambda request: 1 / 0, allow_problems=True)
        reply = ask(server)
        assert reply.status_code == 500
        assert "ZeroDivisionError" in reply.json()["error"]["message"]
        assert server.requests[0].rejected == "script failed"
        assert "the script failed at request 1: ZeroDivisionError" in server.problems[0]

    def test_repeat(self, model_server):
        server = model_server(["one", "two"], repeat=True)
        texts = [ask(server).json()["choices"][0]["message"]["content"] for _ in range(5)]
        assert texts == ["one", "two", "one", "two", "one"]

    def test_side_requests_take_no_step(self, model_server):
        def title(request):
            return None if request.tools else "A title"

        server = model_server(["work"], side=title)
        tools = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
        assert "A title" in ask(server).text
        assert "work" in ask(server, tools=tools).text
        server.assert_finished()

    def test_bad_steps(self):
        with pytest.raises(TypeError, match=r"yields kit\.Step objects or strings, not 7"):
            Script([7])
        with pytest.raises(ValueError, match=r"no usage figure is called 'inputs'; they are input"):
            Step(usage={"inputs": 1})
        with pytest.raises(TypeError, match=r"calls holds kit\.Call objects"):
            Step(calls=[{"name": "bash"}])
        with pytest.raises(TypeError, match="a custom call's arguments are a string"):
            Call("apply_patch", {"a": 1}, custom=True)

    def test_turns(self):
        def turns(**body):
            raw = json.dumps(body).encode()
            return Request(1, "chat", "POST", "/", "", [], raw).turns

        user, model = {"role": "user"}, {"role": "assistant"}
        assert turns(messages=[user, model, {"role": "tool"}, model, user]) == 2
        call = {"type": "function_call", "call_id": "1"}
        reasoning, output = {"type": "reasoning"}, {"type": "function_call_output"}
        assert turns(input=[user, reasoning, call, call, output, output, model]) == 2


class TestRecord:
    def test_bytes_headers_path_and_reply(self, model_server):
        server = model_server(["ok"])
        raw = b'{ "model": "m",\n "messages": [{"content": "\\u00e9", "role": "user"}] }'
        headers = [
            ("Authorization", "Bearer sk-secret"),
            ("X-Api-Key", "sk-other"),
            ("anthropic-beta", "a"),
            ("Anthropic-Beta", "b"),
        ]
        assert http.post(f"{server.url}/v9/a%2Fb", content=raw).status_code == 404
        http.post(f"{server.url}/chat/completions?beta=true", content=raw, headers=headers)
        (request,) = server.requests
        assert request.raw == raw
        assert (request.method, request.path, request.query) == (
            "POST",
            "/chat/completions",
            "beta=true",
        )
        assert [v for n, v in request.headers if n == "anthropic-beta"] == ["a", "b"]
        assert request.header("authorization") == redact("Bearer sk-secret")
        assert "sk-" not in str(request.headers)
        assert request.body["messages"][0]["content"] == "é"
        assert request.reply.status == 200
        assert request.reply.json()["id"] == "chatcmpl-0"
        assert request.usage.input == 1
        assert request.answered
        assert server.other[0].path == "/v9/a%2Fb"

    def test_stream_is_recorded(self, model_server):
        server = model_server(["ok"])
        reply = ask(server, stream=True)
        assert server.requests[0].reply.body == reply.content
        assert server.requests[0].reply.events()[-1].data == "[DONE]"

    @pytest.mark.parametrize(
        ("encoding", "compress"),
        [("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress)],
    )
    def test_compressed_requests(self, model_server, encoding, compress):
        server = model_server(["ok"])
        raw = compress(json.dumps(minimal("chat")).encode())
        headers = {"content-encoding": encoding}
        reply = http.post(server.url + PATHS["chat"], content=raw, headers=headers)
        assert reply.status_code == 200
        assert server.requests[0].raw == raw
        assert server.requests[0].body == minimal("chat")

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
    def test_no_json(self, model_server, content):
        server = model_server([], allow_problems=True)
        reply = http.post(server.url + PATHS["chat"], content=content)
        assert reply.status_code == 400
        assert "could not parse" in reply.json()["error"]["message"]
        assert server.requests[0].rejected == "invalid"
        assert server.problems

    def test_lone_surrogates(self, model_server):
        server = model_server(["ok"])
        raw = b'{"model": "m", "messages": [{"role": "user", "content": "\\ud83d"}]}'
        assert http.post(server.url + PATHS["chat"], content=raw).status_code == 200

    def test_dump(self, model_server, tmp_path):
        server = model_server([Step("ok"), Step("streamed")])
        ask(server, "anthropic")
        ask(server, "responses", stream=True)
        http.get(f"{server.openai_url}/models")
        path = server.dump(tmp_path / "new")
        first, second, third = map(json.loads, path.read_text().splitlines())
        assert first["request"]["body"] == minimal("anthropic")
        assert first["response"]["body"]["id"] == "msg_0"
        assert first["response"]["body_raw"] is None
        assert first["kit"]["usage"]["output"] == 0
        assert second["response"]["body"] is None
        assert "event: response.completed" in second["response"]["body_raw"]
        assert third["request"]["url"] == "/v1/models"
        assert (tmp_path / "new" / "0001.request").read_bytes() == server.requests[0].raw

    def test_written_as_it_goes(self, model_server, tmp_path):
        server = model_server(["ok"] * 2, record=tmp_path)
        for number in (1, 2):
            ask(server)
            server.wait(number)
            lines = (tmp_path / "requests.jsonl").read_text().splitlines()
            assert len(lines) == number

    def test_same_script_same_bytes(self, model_server):
        step = Step("text", thought="thought", calls=[Call("bash", {"a": 1})])
        for api in APIS:
            for stream in (False, True):
                servers = [model_server([step, step]) for _ in range(2)]
                replies = [[ask(s, api, stream=stream).content for _ in range(2)] for s in servers]
                assert replies[0] == replies[1]
                assert replies[0][0] != replies[0][1]  # ids differ

    def test_many_at_once(self, model_server):
        server = model_server(["ok"] * 40)
        threads = [threading.Thread(target=ask, args=(server,)) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        requests = server.wait(40)
        assert [request.number for request in requests] == list(range(1, 41))
        assert len({request.reply.json()["id"] for request in requests}) == 40

    def test_wait_is_bounded(self, model_server):
        with pytest.raises(TimeoutError, match=r"0 of 1 replies ended in 0\.01 s"):
            model_server([]).wait(1, timeout=0.01)


class TestOtherPaths:
    @pytest.mark.parametrize("api", APIS)
    def test_with_and_without_v1(self, model_server, api):
        server = model_server(["ok"] * 2)
        for path in (PATHS[api], PATHS[api].removeprefix("/v1")):
            assert http.post(server.url + path, json=minimal(api)).status_code == 200

    def test_models(self, model_server):
        server = model_server(models=["one", "two"])
        listed = http.get(f"{server.openai_url}/models").json()
        card = {"id": "one", "object": "model", "created": 0, "owned_by": "kit"}
        assert listed["object"] == "list"
        assert listed["data"][0] == http.get(f"{server.openai_url}/models/one").json() == card
        version = {"anthropic-version": "2023-06-01"}
        listed = http.get(f"{server.url}/v1/models", headers=version).json()
        assert (listed["first_id"], listed["last_id"], listed["has_more"]) == ("one", "two", False)
        assert listed["data"][0]["type"] == "model"
        assert http.get(f"{server.openai_url}/models/three").status_code == 404

    def test_count_tokens(self, model_server):
        server = model_server(["ok"] * 2, count=len)
        body = {**minimal("anthropic"), "system": "Be."}
        counted = http.post(f"{server.url}/v1/messages/count_tokens", json=body).json()
        ask(server, "anthropic", **body)
        assert counted == {"input_tokens": server.requests[0].usage.input}
        body = minimal("responses")
        counted = http.post(f"{server.openai_url}/responses/input_tokens", json=body).json()
        assert counted == {"object": "response.input_tokens", "input_tokens": 6}
        assert server.script.left == 1
        assert len(server.other) == 2
        assert http.post(f"{server.url}/v1/messages/count_tokens", content=b"{").status_code == 400

    def test_websocket_is_refused(self, model_server):
        headers = {"connection": "upgrade", "upgrade": "websocket"}
        reply = http.get(f"{model_server().openai_url}/responses", headers=headers)
        assert reply.status_code == 426

    def test_hello_and_unknown(self, model_server):
        server = model_server()
        assert http.head(f"{server.url}/api/hello").status_code == 200
        reply = http.put(f"{server.url}/v2/nothing")
        assert reply.status_code == 404
        assert reply.json()["error"]["message"] == "the test kit has no PUT /v2/nothing"
        assert server.other[-1].path == "/v2/nothing"

    def test_env(self, model_server):
        server = model_server()
        assert server.env()["OPENAI_BASE_URL"] == f"http://127.0.0.1:{server.port}/v1"
        assert server.env()["ANTHROPIC_BASE_URL"] == f"http://127.0.0.1:{server.port}"


class TestResponsesState:
    def test_previous_response(self, model_server):
        server = model_server([Step(calls=[Call("bash")]), "done"], count=len)
        first = ask(server, "responses").json()
        output = {"type": "function_call_output", "call_id": "call_0_0", "output": "ok"}
        reply = ask(server, "responses", input=[output], previous_response_id=first["id"])
        assert reply.status_code == 200
        request = server.requests[1]
        assert request.body["input"] == [output]
        assert request.messages == [*minimal("responses")["input"], *first["output"], output]
        assert request.usage.cached == server.requests[0].usage.input

    def test_unknown_or_not_stored(self, model_server):
        server = model_server(["ok"])
        first = ask(server, "responses", store=False).json()
        reply = ask(server, "responses", previous_response_id=first["id"])
        assert reply.status_code == 400
        assert reply.json()["error"]["code"] == "previous_response_not_found"

    def test_compaction(self, model_server):
        server = model_server([])
        items = [*minimal("responses")["input"], {"type": "compaction_trigger"}]
        output = ask(server, "responses", input=items).json()["output"]
        assert [item["type"] for item in output] == ["compaction"]
        reply = http.post(f"{server.openai_url}/responses/compact", json=minimal("responses")).json()
        assert reply["object"] == "response.compaction"
        assert [item.get("type") for item in reply["output"]] == [None, "compaction"]
        after = ask(server, "responses", input=[*reply["output"], {"type": "compaction_trigger"}])
        assert after.status_code == 200


def test_stop_frees_the_port():
    with ModelServer(["ok"]) as server:
        ask(server)
        port = server.port
    with ModelServer(["ok"], port=port) as server:
        assert server.port == port
        assert ask(server).status_code == 200


def test_stop_without_start():
    ModelServer([]).stop()
