"""The parts that every card has at every tick, written without the template engine: it would take half of the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboard import addresses, marks
from toolcards.core.lifecycle import ToolCallState

if TYPE_CHECKING:
    from dashboard.face import Face
    from toolcards.models import ToolCall


def attributes(call: ToolCall, face: Face) -> SafeString:
    """Return the attributes of the card's article; the first five are the public contract."""
    card, look = face.card, face.look
    dom = f"c-{call.public_id}"
    named = {
        "id": dom, "class": "card full" if face.full else "card", "data-call-id": marks.plain(card.call_id),
        "data-run": marks.plain(call.run.name), "data-state": card.state or ToolCallState.INPUT_STREAMING,
        "data-rev": card.rev, "data-seq": card.seq, "data-ordinal": card.ordinal, "data-pk": call.pk,
        "data-requested": face.requested_ms, "data-st": look.st, "aria-labelledby": f"{dom}-h", "tabindex": -1,
    }  # fmt: skip
    if card.waiting:
        named |= {"data-queue": face.queue, "data-risk": face.risk.level}
    if face.took:
        named["data-took"] = round(face.took * 1000)
    if card.soft:
        named["data-soft"] = marks.plain(card.cause or "")
    flags = {
        "data-waiting": card.waiting, "data-moving": look.live and not card.finished, "data-full": face.full,
    }  # fmt: skip
    text = " ".join([f'{name}="{escape(value)}"' for name, value in named.items()] + [f for f in flags if flags[f]])
    return mark_safe(text)  # noqa: S308 - every value is escaped one line above


def strip(face: Face) -> SafeString | str:
    """Return the three parts of the call's time as a small picture; nothing before the first has ended."""
    if not face.segments:
        return ""
    rects = format_html_join(
        "", '<rect class="{}" x="{}" y="0" width="{}" height="6"/>', ((s.part, s.x, s.width) for s in face.segments)
    )
    return format_html(
        '<svg class="strip" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>',
        face.durations,
        rects,
    )


def meta(call: ToolCall, face: Face, clock: SafeString | str) -> SafeString:
    """Return the small print: whose call it is, in which run, when, and how long its parts took."""
    card = face.card
    said = [format_html('<span class="path">{}</span>', marks.visible(face.path))] if face.path else []
    name = call.run.name
    said.append(format_html('<a class="runlink" href="{}">{}</a>', addresses.run(name), marks.visible(name)))
    plain = (
        f"step {card.step}" if card.step else "",
        f"attempt {card.attempt}" if card.attempt > 1 else "",
        f"from {card.tool.source}" if card.tool.source else "",
        "run by the model provider" if card.provider_executed else "",
    )
    said += [format_html("<span>{}</span>", marks.visible(text)) for text in plain if text]
    if clock:
        said.append(format_html("<span>{}</span>", clock))
    if face.durations:
        said.append(format_html('<span class="lengths">{}</span>', face.durations))
    return mark_safe("".join(said))  # noqa: S308 - each part is escaped above
