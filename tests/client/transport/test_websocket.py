"""The client's WebSocket against an independent server, and against bytes that no server should send."""

import asyncio
import base64
import contextlib
import hashlib
import struct

import pytest
from websockets.asyncio.server import serve

from toolcards.client.transport import websocket


@contextlib.asynccontextmanager
async def a_server(handler):
    async with serve(handler, "127.0.0.1", 0, max_size=None) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/path?x=1"


async def echo(socket):
    async for message in socket:
        await socket.send(message)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 1_000_003])
async def test_text_of_any_length_comes_back(size):
    async with a_server(echo) as url:
        socket = await websocket.connect(url)
        text = ("a☃" * size)[:size]
        await socket.send(text)
        assert await socket.recv() == text
        await socket.close()


async def test_fragments_become_one_message():
    async def fragments(socket):
        await socket.send(["", "one ", "", "message"])
        await socket.wait_closed()

    async with a_server(fragments) as url:
        socket = await websocket.connect(url)
        assert await socket.recv() == "one message"
        await socket.close()


async def test_pings_are_answered_while_waiting():
    answer_event = asyncio.Event()

    async def pinging(socket):
        await (await socket.ping(b"hello"))
        answer_event.set()
        await socket.send("done")
        await socket.wait_closed()

    async with a_server(pinging) as url:
        socket = await websocket.connect(url)
        assert await socket.recv() == "done"
        assert answer_event.is_set()
        await socket.close()


async def test_the_servers_close_code_and_reason_are_reported():
    async with a_server(lambda socket: socket.close(4401, "signed out")) as url:
        socket = await websocket.connect(url)
        with pytest.raises(websocket.ConnectionClosed) as error:
            await socket.recv()
        assert (error.value.code, error.value.reason) == (4401, "signed out")
        with pytest.raises(websocket.ConnectionClosed):
            await socket.send("too late")


async def test_our_close_code_reaches_the_server():
    codes = []

    async def noting(socket):
        await socket.wait_closed()
        codes.append(socket.close_code)

    async with a_server(noting) as url:
        socket = await websocket.connect(url)
        await socket.close(4000, "enough")
    assert codes == [4000]


async def test_headers_and_path_are_sent():
    requests = []

    async def noting(socket):
        requests.append((socket.request.path, socket.request.headers["Authorization"]))

    async with a_server(noting) as url:
        socket = await websocket.connect(url, headers={"Authorization": "Bearer k"})
        await socket.close()
    assert requests == [("/path?x=1", "Bearer k")]


async def test_a_refusal_tells_its_status():
    async with serve(echo, "127.0.0.1", 0, process_request=lambda c, r: c.respond(403, "no")) as server:
        with pytest.raises(websocket.ConnectionClosed) as error:
            await websocket.connect(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert error.value.code == 403


async def test_a_line_break_in_a_header_is_refused():
    async with a_server(echo) as url:
        with pytest.raises(ValueError, match="line break"):
            await websocket.connect(url, headers={"Authorization": "Bearer k\r\nX: y"})


# ---------------------------------------------------------------- bytes that no server should send

BROKEN = {
    "a masked frame": (b"\x81\x81\x00\x00\x00\x00a", 1002),
    "a reserved bit": (b"\xc1\x01a", 1002),
    "an unknown opcode": (b"\x83\x01a", 1002),
    "a binary message": (b"\x82\x01a", 1003),
    "a continuation of nothing": (b"\x80\x01a", 1002),
    "a new message inside another": (b"\x01\x01a\x81\x01b", 1002),
    "a ping in pieces": (b"\x09\x01a", 1002),
    "a long ping": (b"\x89\x7e\x00\x80" + b"a" * 128, 1002),
    "text that is no UTF-8": (b"\x81\x02\xc3\x28", 1007),
    "a huge frame": (b"\x81\x7f" + struct.pack("!Q", 1 << 40), 1009),
    "an incomplete close code": (b"\x88\x01a", 1002),
    "an end in the middle": (b"\x81\x05ab", 1006),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_broken_bytes_end_the_connection(name):
    broken_bytes, code = BROKEN[name]

    async def talk(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        key = next(line.split(b": ")[1] for line in head.split(b"\r\n") if line.startswith(b"Sec-WebSocket-Key"))
        accept = base64.b64encode(hashlib.sha1(key + websocket._GUID.encode()).digest())
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n" + broken_bytes
        )
        await writer.drain()
        if code == 1006:
            writer.close()
        else:
            await reader.read()
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        socket = await websocket.connect(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        with pytest.raises(websocket.ConnectionClosed) as error:
            await socket.recv()
        assert error.value.code == code
        socket.abort()


async def refusal_of(head):
    """Connect to a server that answers with this head; return the code of the failure."""

    async def talk(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        with pytest.raises(websocket.ConnectionClosed) as failed:
            await websocket.connect(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    return failed.value.code


async def test_a_server_of_another_kind_is_no_websocket():
    head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
    assert await refusal_of(head) == 1002


@pytest.mark.parametrize("status", ["²", "9" * 5_000, ""])
async def test_an_answer_whose_status_is_no_number_is_a_connection_that_failed(status):
    assert await refusal_of(f"HTTP/1.1 {status} Odd\r\n\r\n".encode("latin-1")) == 1006
