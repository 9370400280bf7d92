"""The transition table: what each kind of fact does in each situation of a card.

The columns are the card's situations, the words the moves:
  IS IA AR AP OA OE OD   go to that state      PRE    output-available, preliminary
  .       nothing, silently                     !      nothing, and an anomaly
  reopen  the input is rewritten                more   late input text completes what is missing
  update  a newer input replaces the older      fill   only what is missing is filled in
  held    the answer waits for its request      stay   as it was (the answer rides on the next request)
  aborted, error, truncated, not-executed, incomplete-input, superseded, no-result   output-error, soft, of that cause
  client  stays available: the app owes the result; a provider owes none        expired  denied by the clock
  passed  the conversation continued: what the app still owed is not reported any more
  paused  as it was: the run ended to wait for the answer
  by-hand done or failed as a person recorded, and still soft: a real result replaces it
  retried a person answered a refusal by the host, or the agent used that answer
"""

from __future__ import annotations

from toolcards.core.calls.card import Card, ToolCallState

COLUMNS = ("none", "IS", "IA", "AR", "AP", "PRE", "SOFT", "OA", "OE", "OD")

_ROWS = """
fact                none   IS                IA            AR          AP            PRE        SOFT    OA      OE      OD
input-started       IS     reopen            reopen        reopen      reopen        .          reopen  reopen  reopen  reopen
input-delta         IS     IS                more          more        more          more       more    more    more    more
input-ready         IA     IA                update        update      update        fill       update  fill    fill    fill
input-repaired      IA     IA                update        update      update        fill       update  fill    fill    fill
input-invalid       OE     OE                OE            OE          OE            OE         OE      !       fill    !
permit-moved        .      permitted         permitted     permitted   permitted     permitted  permitted permitted permitted permitted
decided             .      judged            judged        judged      judged        judged     judged  .       .       .
approval-asked      AR     AR                AR            AR          again         !          AR      !       !       !
answered-yes        held   !                 !             AP          .             !          !       !       !       !
answered-no         held   !                 !             OD          !             !          !       !       !       !
voted               .      .                 .             counted       .             .          .       .       .       .
approval-rebound    .      .                 .             rebound     .             .          .       .       .       .
approval-moved      .      .                 .             moved       moved         moved      moved   moved   moved   moved
approval-fetched    .      .                 .             .           fetched       .          .       .       .       .
agent-moved         .      .                 .             away        away          .          .       .       .       .
escalated           .      .                 .             escalated   .             .          .       .       .       .
reviewed            .      .                 .             reviewed    .             .          .       .       .       .
output-partial      PRE    PRE               PRE           PRE         PRE           PRE        PRE     !       !       !
output-ready        OA     OA                OA            OA          OA            OA         OA      fill    !       !
output-failed       OE     OE                OE            OE          OE            OE         OE      !       fill    !
output-denied       OD     OD                OD            OD          OD            OD         OD      !       !       fill
outcome-marked      .      .                 .             .           .             .          .       marked  .       .
snapshot-seen       .      seen              seen          seen        seen          seen       seen    seen    .       .
closed/ok           .      incomplete-input  client        paused      stay          no-result  .       .       .       .
closed/not-executed .      incomplete-input  not-executed  stay        not-executed  no-result  .       .       .       .
closed/unreported   .      incomplete-input  no-result     stay          no-result     no-result  .       .       .       .
closed/deferred     .      .                 client        .             client        client     .       .       .       .
closed/interrupt    .      incomplete-input  stay          paused      stay          stay       .       .       .       .
closed/aborted      .      aborted           aborted       aborted     aborted       aborted    .       .       .       .
closed/error        .      run-error         run-error     run-error   run-error     run-error  .       .       .       .
closed/truncated    .      truncated         truncated     stay        truncated     truncated  .       .       .       .
closed/expired      .      .                 .             expired     .             .          .       .       .       .
closed/superseded   .      .                 passed        superseded  .             .          .       .       .       .
closed/changed      .      .                 superseded    superseded  superseded    .          .       .       .       .
closed/cancelled    .      .                 .             aborted     aborted       .          .       .       .       .
settled-by-hand     .      .                 .             .           .             .          by-hand .       .       .
retry-moved         .      .                 .             .           .             .          .       .       .       retried
removed             .      gone              gone          gone        gone          gone       gone    gone    gone    gone
odd                 .      odd               odd           odd         odd           odd        odd     odd     odd     odd
"""


def _parse_rows(rows: str) -> dict[tuple[str, str], str]:
    table: dict[tuple[str, str], str] = {}
    head, *body = [line.split() for line in rows.strip().splitlines()]
    assert tuple(head[1:]) == COLUMNS
    for name, *moves in body:
        assert len(moves) == len(COLUMNS), name
        table.update({(name, column): move for column, move in zip(COLUMNS, moves, strict=True)})
    return table


NEXT = _parse_rows(_ROWS)
ROWS = tuple(dict.fromkeys(name for name, _ in NEXT))

_COLUMN = {
    None: "none",
    ToolCallState.INPUT_STREAMING: "IS",
    ToolCallState.INPUT_AVAILABLE: "IA",
    ToolCallState.APPROVAL_REQUESTED: "AR",
    ToolCallState.APPROVAL_RESPONDED: "AP",
    ToolCallState.OUTPUT_AVAILABLE: "OA",
    ToolCallState.OUTPUT_ERROR: "OE",
    ToolCallState.OUTPUT_DENIED: "OD",
}


def find_column(card: Card) -> str:
    """Return the card's situation, one of `COLUMNS`."""
    if card.soft:
        return "SOFT"
    if card.preliminary:
        return "PRE"
    return _COLUMN[card.state]
