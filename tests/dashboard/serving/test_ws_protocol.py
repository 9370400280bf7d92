"""What a WebSocket's bytes mean does not depend on who reads them: our short way, or uvicorn's and websockets' own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import apply_mask

from dashboard.serving.limits import Peer
from dashboard.serving.ws_protocol import WebSocketProtocol
from tests.support.effort import draw
from tests.support.server import PATIENCE, ROOT
from toolcards.transports.api.admission import RECEIPTS, TEXT_BUNDLES, admit

MOST = 70_000
REQUEST = (
    b"GET /ws/ HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
TEXT, BINARY, CLOSE, PING, PONG = 0x81, 0x82, 0x88, 0x89, 0x8A


def frame(payload: bytes, first: int = TEXT, mask: bytes = b"\x37\xfa\x21\x3d") -> bytes:
    """Return a frame as a client sends it."""
    size = len(payload)
    if size < 126:
        head = bytes([first, 0x80 | size])
    elif size < 1 << 16:
        head = bytes([first, 0xFE]) + size.to_bytes(2, "big")
    else:
        head = bytes([first, 0xFF]) + size.to_bytes(8, "big")
    return head + mask + apply_mask(payload, mask)


class Wire(asyncio.Transport):
    """The other end of a connection: keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.output, self.is_closed, self.paused = b"", False, 0

    def write(self, data: Any) -> None:
        self.output += data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.paused += 1

    def resume_reading(self) -> None:
        self.paused -= 1


async def outcome(
    kind: type, pieces: list[bytes], early: bytes = b"", *, has_bundles: bool = False
) -> tuple[list[Any], bytes, bool, bool]:
    """Return the application's messages, the bytes for the client, and whether all was closed and paused.

    `has_bundles`: the application asks for all texts of a read at once.
    """
    entries: list[Any] = []
    wire, state = Wire(), ServerState()
    ready = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await ready.wait()
        await send({"type": "websocket.accept"})
        admit(scope)  # else ours reads no long messages
        if has_bundles:
            scope["extensions"][TEXT_BUNDLES]()
        while entries[-1:] != ["websocket.disconnect"]:
            message = await receive()
            assert "texts" not in message or (has_bundles and message["texts"])
            entries.extend(message.get("texts") or [message.get("text", message.get("bytes", message["type"]))])
            if entries[-1] == "bye" and entries.count("bye") == 1:
                await send({"type": "websocket.close", "code": 4001})

    config = uvicorn.Config(
        application, ws=kind, ws_max_size=MOST, ws_per_message_deflate=False, lifespan="off", log_config=None
    )
    config.load()
    protocol = kind(config, state, {})
    protocol.connection_made(wire)
    protocol.data_received(REQUEST)
    await asyncio.sleep(0)
    if early:
        protocol.data_received(early)
    ready.set()
    for piece in pieces:
        for _ in range(4):
            await asyncio.sleep(0)
        if wire.is_closed:
            break
        protocol.data_received(piece)
    for _ in range(4):
        await asyncio.sleep(0)
    is_closed, paused = wire.is_closed, not wire.is_closed and wire.paused > 0
    protocol.connection_lost(None)
    await asyncio.gather(*state.tasks)
    return entries, wire.output, is_closed, paused


def agree(pieces: list[bytes], frames: list[bytes], early: bytes = b"") -> tuple[list[Any], bytes, bool, bool]:
    """Return the outcome, which for ours is the same in pieces, with bundles too, as for theirs frame by frame.

    Of a piece with a frame that breaks the rules, theirs forgets what came before it; so it gets each frame alone.
    """
    ours = asyncio.run(outcome(WebSocketProtocol, pieces, early))
    theirs = asyncio.run(outcome(WebSocketsSansIOProtocol, frames, early))
    assert (ours[0], ours[1][-300:], ours[2:]) == (theirs[0], theirs[1][-300:], theirs[2:])
    assert ours == asyncio.run(outcome(WebSocketProtocol, pieces, early, has_bundles=True))
    return ours


# No "bye": it makes the application close, and what comes before or after that depends on how the bytes are cut.
USUAL = st.one_of(
    st.text(max_size=200).filter(lambda text: text != "bye").map(lambda text: frame(text.encode())),
    st.sampled_from([0, 125, 126, 127, 1000, 65_535, 65_536, MOST]).map(lambda size: frame(b"x" * size)),
)
RARE = st.sampled_from([
    frame(b"\x00\xff", BINARY), frame(b"p", PING), frame(b"p", PONG), frame(b"half", 0x01), frame(b"end", 0x80),
    frame(b"more", 0x00),
])  # fmt: skip
WRONG = st.sampled_from([
    frame(b"\xc3("), frame(b"y" * (MOST + 1)), b"\x81\x02hi", frame(b"rsv", 0xC1), frame(b"odd", 0x83),
    frame(b"x" * 126, PING), frame(b"", CLOSE), frame(b"\x03\xe8bye", CLOSE), frame(b"\x00", CLOSE),
])  # fmt: skip


@draw(150)
@given(frames=st.lists(st.one_of(USUAL, USUAL, RARE), max_size=8), last=st.lists(WRONG, max_size=1), data=st.data())
def test_any_bytes_cut_anywhere_mean_the_same(frames: list[bytes], last: list[bytes], data: st.DataObject) -> None:
    frames += last + frames[:2]
    wire_bytes = b"".join(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire_bytes)), max_size=6)))
    agree([wire_bytes[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(wire_bytes)], strict=True)], frames)


def test_what_comes_behind_a_frame_that_breaks_the_rules_is_not_answered() -> None:
    frames = [frame(b"p", PING), frame(b"\xc3("), frame(b"p", PING)]
    agree([b"".join(frames)], frames)


def test_byte_by_byte_it_is_the_same() -> None:
    frames = [frame("añ€".encode()), frame(b"x" * 126), frame(b"p", PING), frame(b"half", 0x01), frame(b"s", 0x80)]
    result, output, is_closed, _ = agree([bytes([byte]) for byte in b"".join(frames)], frames)
    assert result == ["añ€", "x" * 126, "halfs", "websocket.disconnect"]
    assert output.endswith(b"\x8a\x01p") and not is_closed


@pytest.mark.parametrize("cut", [0, 3, 9, 40])
def test_frames_sent_before_the_handshake_was_answered_are_read_in_order(cut: int) -> None:
    wire_bytes = frame(b"first") + frame(b"second") + frame(b"third")
    result, *_ = agree([wire_bytes[cut:]], [wire_bytes[cut:]], early=wire_bytes[:cut])
    assert result[:3] == ["first", "second", "third"]


def test_a_text_inside_a_fragmented_message_is_refused() -> None:
    frames = [frame(b"half", 0x01), frame(b"whole"), frame(b"end", 0x80)]
    result, _, is_closed, _ = agree([b"".join(frames)], frames)
    assert "whole" not in result and is_closed


@pytest.mark.parametrize("cut", [0, 5, 11, 14])
def test_what_comes_once_we_have_closed_is_not_told(cut: int) -> None:
    wire_bytes = frame(b"late") + frame(b"\x0f\xa1", CLOSE)
    pieces = [frame(b"bye"), wire_bytes[:cut], wire_bytes[cut:]]
    result, _, is_closed, _ = agree(pieces, pieces)
    assert "late" not in result and is_closed


@pytest.mark.parametrize("cut", range(7))
def test_a_ping_after_our_close_is_not_answered(cut: int) -> None:
    wire_bytes = frame(b"bye") + frame(b"p", PING)
    at = len(frame(b"bye")) + cut  # before or inside the ping
    _, output, is_closed, _ = asyncio.run(
        outcome(WebSocketProtocol, [wire_bytes[:at], wire_bytes[at:], frame(b"\x0f\xa1", CLOSE)])
    )
    assert output.endswith(b"\x88\x02\x0f\xa1") and is_closed


async def take_turns() -> None:
    """Let the application go on for as long as it can: nothing here waits for another thread or a clock."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_long_message_waits_outside_until_its_sender_is_known() -> None:
    peer, wire, headers = Peer(), Wire(), []
    sign_in_event = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await sign_in_event.wait()
        admit(scope)
        while headers[-1:] != ["websocket.disconnect"]:
            message = await receive()
            headers.append(message.get("text", message["type"]))

    config = uvicorn.Config(application, ws=WebSocketProtocol, ws_max_size=1 << 20, lifespan="off", log_config=None)
    config.load()
    protocol = WebSocketProtocol(config, ServerState(), {}, peer=peer)
    protocol.connection_made(wire)
    protocol.data_received(REQUEST)
    await take_turns()
    wire_bytes = frame(b"x" * 200_000)
    protocol.data_received(wire_bytes[:60_000])
    assert wire.paused == 0
    protocol.data_received(wire_bytes[60_000:100_000])
    assert wire.paused == 1
    sign_in_event.set()
    await take_turns()
    assert wire.paused == 0
    protocol.data_received(wire_bytes[100_000:])
    await take_turns()
    protocol.connection_lost(None)
    await take_turns()
    assert headers == ["x" * 200_000, "websocket.disconnect"]


async def test_all_texts_of_a_read_are_one_message_for_an_application_that_asks_for_it() -> None:
    messages: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        admit(scope)
        scope["extensions"][TEXT_BUNDLES]()
        while "websocket.disconnect" not in messages:
            message = await receive()
            messages.append(message.get("texts", message.get("bytes", message["type"])))

    config = uvicorn.Config(application, ws=WebSocketProtocol, lifespan="off", log_config=None)
    config.load()
    protocol = WebSocketProtocol(config, ServerState(), {})
    protocol.connection_made(Wire())
    protocol.data_received(REQUEST)
    await take_turns()
    protocol.data_received(frame(b"1") + frame(b"2") + frame(b"3", BINARY) + frame(b"4") + frame(b"5")[:4])
    protocol.data_received(frame(b"5")[4:])
    protocol.connection_lost(None)
    await take_turns()
    assert messages == [["1", "2"], b"3", ["4"], ["5"], "websocket.disconnect"]


async def test_a_pong_is_the_receipt_of_all_that_was_sent_before_its_ping() -> None:
    receipts: list[str] = []
    requests: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        requests.append(scope["extensions"][RECEIPTS])
        while (await receive())["type"] != "websocket.disconnect":
            pass

    config = uvicorn.Config(application, ws=WebSocketProtocol, lifespan="off", log_config=None)
    config.load()
    wire, state = Wire(), ServerState()
    protocol = WebSocketProtocol(config, state, {})
    protocol.connection_made(wire)
    protocol.data_received(REQUEST)
    await take_turns()
    pings = []
    for name in ("first", "second", "third"):
        start = len(wire.output)
        requests[0](lambda name=name: receipts.append(name))
        pings.append(wire.output[start + 2 :])
    protocol.data_received(frame(b"unsolicited", 0x8A))
    assert receipts == []
    protocol.data_received(frame(pings[1], 0x8A))
    assert receipts == ["first", "second"]
    protocol.data_received(frame(pings[0], 0x8A))
    assert receipts == ["first", "second"]
    protocol.connection_lost(None)
    await asyncio.gather(*state.tasks)
    assert receipts == ["first", "second"]


def test_worker_processes_can_load_the_protocols_before_django_is_set_up() -> None:
    command = [sys.executable, "-c", "import dashboard.serving; import django.apps; assert not django.apps.apps.ready"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=PATIENCE)


def test_text_that_is_not_utf_8_ends_the_connection_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="uvicorn.error"):
        pieces = [frame(b"first"), frame(b"half \xc3", 0x01), frame(b"( of it", 0x80), frame(b"never read")]
        entries, output, is_closed, _ = asyncio.run(outcome(WebSocketProtocol, pieces))
    assert entries == ["first", "websocket.disconnect"] and is_closed
    assert output.endswith(b"\x88\x02" + (1007).to_bytes(2, "big"))
    (record,) = [record for record in caplog.records if "UTF-8" in record.getMessage()]
    assert record.levelname == "INFO" and record.exc_info is None
