"""Runs one simulation of the policy page, which starts this command in a separate process."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.policy.simulation import jobs


class Command(BaseCommand):
    """`manage.py simulate <job>`."""

    help = "Run a simulation that was requested on the policy page."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the job."""
        parser.add_argument("job")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the job with low priority."""
        with suppress(OSError, AttributeError):
            os.nice(10)
        cores = min(2, os.cpu_count() or 1) if hasattr(os, "fork") else 1
        try:
            job = jobs.run_job(options["job"], cores=cores)
        except LookupError:
            raise CommandError("There is no pending simulation with this id.") from None
        self.stdout.write(f"{job.state}: {job.tally.changed} of {job.tally.judged} calls change")
