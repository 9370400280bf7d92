"""The channel layer over Redis, which sleeps until a message arrives."""

from __future__ import annotations

from typing import Any

from channels_redis.pubsub import (  # type: ignore[import-untyped]
    RedisPubSubChannelLayer,
    RedisPubSubLoopLayer,
    RedisSingleShardConnection,
)
from redis.asyncio.client import PubSub


class WaitingRedisLayer(RedisPubSubChannelLayer):  # type: ignore[misc]
    """The layer of channels_redis, which itself looks for messages ten times a second."""

    def _get_layer(self) -> RedisPubSubLoopLayer:
        layer = super()._get_layer()
        layer._shards = [
            shard if isinstance(shard, _WaitingShard) else _WaitingShard(shard.host, layer) for shard in layer._shards
        ]
        return layer


class _WaitingShard(RedisSingleShardConnection):  # type: ignore[misc]
    _pubsub: PubSub | None

    def _ensure_redis(self) -> None:
        super()._ensure_redis()
        if not isinstance(self._pubsub, _WaitingPubSub):
            self._pubsub = _WaitingPubSub(self._redis.connection_pool)


class _WaitingPubSub(PubSub):
    async def get_message(self, ignore_subscribe_messages: bool = False, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        """Return the next message, however long it takes.

        A layer that is flushed cancels the read.
        """
        return await super().get_message(ignore_subscribe_messages, None)
