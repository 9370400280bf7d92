"""The connect page: the ways to connect an agent, with this server's address, and a checklist that updates live.

Most ways are recipes of `toolcards connect`, which describe themselves; the others are listed here. They are tested
with the real programs and libraries (`tests/clients/`), and `docs/` explains each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboard.accounts.access import KEYS, needs
from dashboard.help.views import Document, load_document
from toolcards.connect import RECIPES, Abilities, Recipe, Snippet, snippet_text
from toolcards.models import AgentKey, Approval, Run, Source
from toolcards.sources.capabilities import build_handed_over_filter


@dataclass(frozen=True, slots=True)
class ConnectMethod:
    """One way to connect. `without_us`: what happens while Toolcards is down; `undo`: how to disconnect."""

    slug: str
    title: str
    about: str
    can: Abilities
    fails: str  # closed, open, or words for anything between
    without_us: str
    snippets: tuple[Snippet, ...]
    undo: str
    undo_command: str = ""
    tested: str = ""
    notes: tuple[str, ...] = ()
    guide: str = ""  # the document with the details
    by_project: bool = False
    starter: str = ""  # the starter policy that fits it

    @property
    def abilities(self) -> tuple[tuple[str, str, str], ...]:
        """Return the abilities in order: word; `yes`, `no` or `partly`; details."""
        words = (
            ("observe", self.can.observe),
            ("gate", self.can.gate),
            ("edit arguments", self.can.edit),
            ("stream", self.can.stream),
        )
        return tuple((word, *_parse_grade(grade_text)) for word, grade_text in words)

    @property
    def guide_document(self) -> Document:
        """Return the document with the details."""
        return load_document(Path(self.guide).stem)

    @property
    def guide_link(self) -> str:
        """Return the address of its section, or of the document."""
        document = self.guide_document
        section = next((section for section, title in document.sections if title.startswith(self.title)), "")
        return reverse("help-document", args=[document.name]) + (f"#{section}" if section else "")


def _parse_grade(grade_text: str) -> tuple[str, str]:
    """Return the grade and the details of `yes`, `no: why` or other text."""
    head, _, detail = grade_text.partition(": ")
    return (head, detail) if head in {"yes", "no"} else ("partly", grade_text)


COMMAND = "command"  # the snippet that contains the command


def _build_method(recipe: Recipe) -> ConnectMethod:
    """Return the method of a program or library with a recipe."""
    where = "In the folder of your code, or with --project FOLDER." if recipe.by_project else "Where the program runs."
    return ConnectMethod(
        slug=recipe.name,
        title=recipe.title,
        about=recipe.about,
        can=recipe.can,
        fails=recipe.fails,
        without_us=recipe.when_away,
        snippets=(Snippet(COMMAND, f"Connect {recipe.title}", where), *recipe.paste, *recipe.by_hand),
        undo=recipe.undo_hint,
        undo_command=recipe.undo_command,
        tested=recipe.version if recipe.by_project else f"{recipe.title} {recipe.version}",
        notes=recipe.notes,
        guide=recipe.guide,
        by_project=recipe.by_project,
        starter=recipe.starter,
    )


WEBSOCKET = ConnectMethod(
    slug="websocket",
    title="WebSocket",
    about="One socket per run: calls go in as they happen, decisions come back on the same socket.",
    can=Abilities(edit="yes: run the arguments that the decision has", stream="yes"),
    fails="closed",
    without_us="The socket closes; a call without a decision must not run.",
    snippets=(
        Snippet(
            "websocket_py",
            "gate.py",
            "Requires: pip install websockets. If the decision has args, a person changed them: run those.",
        ),
    ),
    undo="Stop using the program, and revoke the key under Agents.",
)

METHODS = (*map(_build_method, RECIPES), WEBSOCKET)


def find_method(name: str) -> ConnectMethod | None:
    """Return the method with this slug or alias."""
    method_name = next((recipe.name for recipe in RECIPES if name in recipe.aliases), name)
    return next((way for way in METHODS if way.slug == method_name), None)


PLACEHOLDER = "PASTE-YOUR-AGENT-KEY"


@require_http_methods(["GET", "HEAD", "POST"])
@needs()
def connect(request: HttpRequest, slug: str = "") -> HttpResponse:
    """Show one way to connect.

    POST creates a key, which only this answer shows.
    """
    way = find_method(slug) if slug else METHODS[0]
    if way is None:
        raise Http404
    if request.method != "POST":
        return _render_page(request, way, request.GET.get("source") or way.slug)
    if not request.user.has_perm(KEYS):
        raise PermissionDenied
    key, secret = AgentKey.objects.issue(way.slug)
    return _render_page(request, way, way.slug, secret=secret, made=key)


def _render_page(request: HttpRequest, way: ConnectMethod, name: str, *, secret: str = "", **more: Any) -> HttpResponse:
    base = request.build_absolute_uri("/").rstrip("/")
    context = {
        "ways": METHODS, "way": way, "placeholder": PLACEHOLDER, "secret": secret, **more,
        "snippets": [
            (snippet, fill_snippet(snippet.name, base, secret or PLACEHOLDER, way)) for snippet in way.snippets
        ],
        "steps": list_steps(name), "follows": name,
        "sources": list(Source.objects.order_by("name").values_list("name", flat=True)[:200]),
    }  # fmt: skip
    return render(request, "connect/connect.html", context)


def fill_snippet(name: str, base: str, key: str = PLACEHOLDER, way: ConnectMethod | None = None) -> str:
    """Return a snippet with this server's address in it."""
    where = " --project FOLDER-OF-YOUR-CODE" if way and way.by_project else ""
    return snippet_text.render_snippet(
        name, base, key, framework=way.slug if way and name == COMMAND else "", where=where
    )


@dataclass(frozen=True, slots=True)
class ChecklistStep:
    """One line: `at` is when it was done, `next_action` what to do for it, `url` the page that shows it."""

    name: str
    word: str
    at: datetime | None
    next_action: str
    url: str = ""


def list_steps(source: str) -> list[ChecklistStep]:
    """Return the steps of a source, each with its latest event."""
    key = AgentKey.objects.live().filter(source__name=source).order_by("-created_at").first()
    run = Run.objects.filter(source__name=source).select_related("source").order_by("-id").first()
    approvals = Approval.objects.filter(run__source__name=source, asked=True).order_by("-requested_at")
    approvals = approvals.select_related("run__source")
    first_held, first_released = approvals.first(), approvals.filter(build_handed_over_filter()).first()
    return [
        ChecklistStep(
            "key", "Key created", key.created_at if key else None, "Create one here, or let the command create it."
        ),
        ChecklistStep(
            "event", "First event received", run.started_at if run else None,
            "Start your agent, or wait for the probe.", _link_to_run(run),
        ),
        ChecklistStep(
            "held", "Call held", _to_datetime(first_held.requested_at if first_held else None),
            "The probe asks for approval. So does your agent, for calls that the policy asks about.",
            _link_to_run(first_held and first_held.run),
        ),
        ChecklistStep(
            "released", "Decision delivered", _to_datetime(first_released.decided_at if first_released else None),
            "Approve or deny the held call.", _link_to_run(first_released and first_released.run),
        ),
    ]  # fmt: skip


def _link_to_run(run: Any) -> str:
    return run.url if run else ""


def _to_datetime(epoch: float | None) -> datetime | None:
    return None if epoch is None else datetime.fromtimestamp(epoch, UTC)
