"""Simulation jobs: each runs in a separate process, so that live pages stay fast; its state is one small file.

A job is bound to the draft's content and to the active version that it was compared with. Files hold counts, ids of
calls and the draft, never arguments.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from django.conf import settings

from dashboard.environment import CHECKOUT
from dashboard.policy.simulation.past_calls import Span
from dashboard.policy.simulation.simulation import SimulationCancelled, simulate, simulate_in_processes
from dashboard.policy.simulation.simulation_result import SimulationResult
from toolcards.core.policy.decision import Effect, RuleSet
from toolcards.core.policy.language import document as documents
from toolcards.files import replace_file
from toolcards.ids import new_id
from toolcards.models import PolicyVersion

log = logging.getLogger(__name__)
MAX_JOBS = 8  # jobs; older files are removed
SILENT = 60.0  # seconds without an update after which the process counts as ended
MOST = 100_000
_OLD_NAMES = {"told": "error", "heard": "updated_at"}  # in files of earlier versions
_ID = re.compile(r"sim_[A-Za-z0-9_\-]{4,60}", re.ASCII)
_children: list[subprocess.Popen[bytes]] = []  # finished processes are collected when the next one starts


@dataclass(frozen=True)
class Job:
    """One simulation: `state` is waiting, running, done, cancelled or failed."""

    id: str
    draft: str  # sha256 of the document
    active: int  # version it is compared with; 0: everything is denied
    by: str = ""
    state: str = "waiting"
    error: str = ""
    began: float = 0.0
    updated_at: float = 0.0
    span: Span = field(default_factory=Span)
    tally: SimulationResult = field(default_factory=SimulationResult)

    @property
    def going(self) -> bool:
        """Return whether the job has not ended."""
        return self.state in {"waiting", "running"}

    def fits(self, draft: str, active: int) -> bool:
        """Return whether the job is about this draft and active version."""
        return (self.draft, self.active) == (draft, active)


def get_folder() -> Path:
    """Return the folder of jobs, which only the server can read."""
    path: Path = settings.TOOLCARDS.data_dir / "simulations"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def create_job(document: dict[str, Any], *, draft: str, active: int, span: Span, author: str) -> Job:
    """Create a job and cancel all others."""
    for older_job in list_jobs():
        if older_job.going:
            cancel_job(older_job.id)
    job = Job(new_id("sim"), draft, active, author, began=time.time(), updated_at=time.time(), span=span)
    _write_file(f"{job.id}.draft", json.dumps(document))
    _save_job(job)
    _delete_old_jobs()
    return job


def start_job(job: Job) -> None:
    """Run the job in a separate process."""
    _children[:] = [child for child in _children if child.poll() is None]
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "dashboard.settings", "TOOLCARDS_DATA_DIR": str(get_folder().parent)}
    if CHECKOUT:
        paths = [str(settings.BASE_DIR), os.environ.get("PYTHONPATH", "")]
        env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    command = [sys.executable, "-m", "toolcards", "simulate", job.id]
    no = subprocess.DEVNULL  # but its errors go to the server's log
    _children.append(subprocess.Popen(command, env=env, stdin=no, stdout=no, start_new_session=True))  # noqa: S603


def run_job(pk: str, *, cores: int = 1) -> Job:
    """Run the job here, on several cores if there are no threads."""
    job = find_job(pk)
    if job is None or not job.going:
        raise LookupError(pk)
    try:
        new = documents.parse(json.loads((get_folder() / f"{job.id}.draft").read_text()))
        job = replace(job, state="running", updated_at=time.time())
        tell = _build_progress_callback(job)
        old = _load_version(job.active)
        tally = (
            simulate_in_processes(old, new, job.span, tell, cores)
            if cores > 1
            else simulate(old, new, job.span, on_progress=tell)
        )
        job = replace(job, state="done", tally=tally)
    except SimulationCancelled:
        job_seen = find_job(pk)
        job = replace(job, state="cancelled", tally=job_seen.tally if job_seen else job.tally)
    except Exception as error:
        log.exception("simulation %s failed", job.id)
        job = replace(job, state="failed", error=type(error).__name__)
    job = replace(job, updated_at=time.time())
    _save_job(job)
    return job


def _build_progress_callback(job: Job) -> Any:
    def tell(tally: SimulationResult) -> None:
        if _is_cancelled(job.id):
            raise SimulationCancelled
        _save_job(replace(job, tally=tally, updated_at=time.time()))

    tell(SimulationResult(total=job.span.total()))
    return tell


def _load_version(number: int) -> RuleSet:
    version = PolicyVersion.objects.filter(number=number).first()
    if version is None:
        return RuleSet(default=Effect.DENY)  # without a policy the gate denies every call
    return documents.parse(json.loads(version.document), version=version.number)


def cancel_job(pk: str) -> None:
    """Ask the job to stop, which takes up to a second."""
    job = find_job(pk)
    if job and job.going:
        _write_file(f"{job.id}.stop", "")


def find_job(pk: str) -> Job | None:
    """Return the job's last known state, or None."""
    if not _ID.fullmatch(pk):
        return None
    try:
        fields = json.loads((get_folder() / f"{pk}.json").read_text())
    except (OSError, ValueError):
        return None
    fields = {_OLD_NAMES.get(name, name): value for name, value in fields.items()}
    job = Job(**fields | {"span": Span(**fields["span"]), "tally": SimulationResult.from_json(fields["tally"])})
    if job.going and _is_cancelled(pk) and job.state == "waiting":
        return replace(job, state="cancelled")
    if job.going and time.time() - job.updated_at > SILENT:
        return replace(job, state="failed", error="its process stopped responding")
    return job


def list_jobs() -> list[Job]:
    """Return all kept jobs, newest first."""
    all_jobs = (find_job(path.stem) for path in get_folder().glob("sim_*.json"))
    return sorted((job for job in all_jobs if job), key=lambda job: -job.began)


def _is_cancelled(pk: str) -> bool:
    return (get_folder() / f"{pk}.stop").exists()


def _save_job(job: Job) -> None:
    _write_file(f"{job.id}.json", json.dumps(asdict(job)))


def _write_file(name: str, text: str) -> None:
    replace_file(get_folder() / name, text)


def _delete_old_jobs() -> None:
    for job in list_jobs()[MAX_JOBS:]:
        for path in get_folder().glob(f"{job.id}.*"):
            with suppress(OSError):
                path.unlink()
