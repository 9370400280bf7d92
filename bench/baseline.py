"""The applications that Toolcards is compared with: the same server with almost no work behind it.

/bare/ parses each message and acknowledges every hundredth; /stock/ does the same in Channels' own
AsyncJsonWebsocketConsumer. /direct/ and /layer/ are watchers; POST /publish/<kind>/?… sends to all of them.
"""

import asyncio
import json
import sys
from urllib.parse import parse_qs

import django
from django.conf import settings

if not settings.configured:
    layer = {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    settings.configure(CHANNEL_LAYERS={"default": layer}, INSTALLED_APPS=["channels"], SECRET_KEY="bench")
    django.setup()

from channels.generic.websocket import AsyncJsonWebsocketConsumer, AsyncWebsocketConsumer
from channels.layers import get_channel_layer

ACK_EVERY = 100
SLOT = 64  # frames waiting for one watcher

watchers: set[asyncio.Queue] = set()


async def bare(scope, receive, send):
    """Parse and count each message."""
    await receive()
    await send({"type": "websocket.accept"})
    count = 0
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return
        json.loads(message["text"])
        count += 1
        if count % ACK_EVERY == 0:
            await send({"type": "websocket.send", "text": f'{{"frames":{count}}}'})


async def bare_post(receive, send):
    """Read a body, parse it, and answer."""
    pieces, more = [], True
    while more:
        message = await receive()
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    json.loads(b"".join(pieces))
    headers = [(b"content-type", b"application/json"), (b"content-length", b"11")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b'{"ok":true}'})


class Stock(AsyncJsonWebsocketConsumer):
    """The generic consumer as its manual shows it."""

    async def connect(self):
        self.count = 0
        await self.accept()

    async def receive_json(self, content):
        self.count += 1
        if self.count % ACK_EVERY == 0:
            await self.send_json({"frames": self.count})


async def direct(scope, receive, send):
    """A watcher with a bounded queue and a task that empties it."""
    await receive()
    await send({"type": "websocket.accept"})
    queue = asyncio.Queue(SLOT)

    async def write():
        while True:
            await send({"type": "websocket.send", "text": await queue.get()})

    writer = asyncio.create_task(write())
    watchers.add(queue)
    try:
        while (await receive())["type"] != "websocket.disconnect":
            pass
    finally:
        watchers.discard(queue)
        writer.cancel()


class Layered(AsyncWebsocketConsumer):
    """A watcher as Channels' manual shows it: one channel per socket in a group."""

    async def connect(self):
        await self.channel_layer.group_add("all", self.channel_name)
        await self.accept()

    async def disconnect(self, code):
        await self.channel_layer.group_discard("all", self.channel_name)

    async def news(self, event):
        await self.send(text_data=event["text"])


async def publish_direct(text, seconds, every):
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while loop.time() < deadline:
        for queue in watchers:
            if not queue.full():
                queue.put_nowait(text)
        await asyncio.sleep(every)


async def publish_layer(text, seconds, every):
    loop, layer = asyncio.get_running_loop(), get_channel_layer()
    deadline = loop.time() + seconds
    while loop.time() < deadline:
        await layer.group_send("all", {"type": "news", "text": text})
        await asyncio.sleep(every)


SOCKETS = {"/bare/": bare, "/stock/": Stock.as_asgi(), "/direct/": direct, "/layer/": Layered.as_asgi()}
PUBLISHERS = {"/publish/direct/": publish_direct, "/publish/layer/": publish_layer}


async def application(scope, receive, send):
    """Route a connection or request; see the ASGI specification."""
    if scope["type"] == "websocket":
        await SOCKETS[scope["path"]](scope, receive, send)
    elif scope["type"] == "http" and scope["path"] == "/bare/":
        await bare_post(receive, send)
    elif scope["type"] == "http":
        query = parse_qs(scope["query_string"].decode())
        if scope["path"] in PUBLISHERS:
            pacing = (float(query[name][0]) for name in ("seconds", "every"))
            await PUBLISHERS[scope["path"]]("x" * int(query["size"][0]), *pacing)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(
        application, host="127.0.0.1", port=int(sys.argv[1]), loop="uvloop", http="httptools", ws="websockets-sansio",
        ws_per_message_deflate=False, lifespan="off", log_level="error", access_log=False,
    )  # fmt: skip
