"""Plays recorded runs, one of them gated, into a running server."""

import argparse
import asyncio
import os
import signal
from contextlib import suppress

from django.core.management.base import BaseCommand, CommandError

from toolcards.demo.player import Player, PlayRefused


class Command(BaseCommand):
    """Plays the demo over the agent WebSocket."""

    help = "Play recorded runs, one of them gated, into a running server over the agent WebSocket."
    requires_system_checks = ()  # it is a client: it needs no database and no settings of this server

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the server, the speed and the rounds."""
        parser.add_argument(
            "--url", default="http://127.0.0.1:8000", help="the server (default: http://127.0.0.1:8000)"
        )
        parser.add_argument("--key", default="", help="an agent key with scope ingest (TOOLCARDS_AGENT_KEY)")
        parser.add_argument("--speed", type=float, default=1.0, help="2 plays twice as fast (default: 1)")
        parser.add_argument(
            "--rounds", type=int, default=3, help="how many times each agent plays its runs (default: 3)"
        )
        parser.add_argument("--once", action="store_const", const=1, dest="rounds", help="the same as --rounds 1")

    def handle(self, *, url: str, key: str, speed: float, rounds: int, **options: object) -> None:
        """Play until the end or Ctrl+C."""
        key = key or os.environ.get("TOOLCARDS_AGENT_KEY", "")
        if not key:
            raise CommandError(
                "An agent key is required: --key, or TOOLCARDS_AGENT_KEY. `agentkey create` creates one."
            )
        if not speed > 0 or rounds < 1:  # also nan
            raise CommandError("--speed must be above 0 and --rounds at least 1.")
        if not url.startswith(("http://", "https://")):
            raise CommandError(f"{url!r} is not an address such as http://127.0.0.1:8000.")
        player = Player(url.rstrip("/"), key, self._say, speed=speed, rounds=rounds)
        self._say(f"Playing the demo into {player.url} (Ctrl+C stops it)")
        try:
            asyncio.run(_play_until_terminated(player))
        except PlayRefused as error:
            raise CommandError(f"The demo could not be played: {error}") from None
        except (KeyboardInterrupt, asyncio.CancelledError):
            self._say("Stopped; the runs were ended as aborted.")

    def _say(self, line: str) -> None:
        # The reader of the output may have closed it; the demo continues.
        with suppress(BrokenPipeError):
            self.stdout.write(line)
            self.stdout.flush()


async def _play_until_terminated(player: Player) -> None:
    """Play; SIGTERM stops it like Ctrl+C."""
    task = asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError):  # Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await player.play()
