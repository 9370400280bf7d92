"""The pages about runs and calls, and signing in: what is there, what is found, who may come."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dashboard import url_helpers
from dashboard.runs.overview import count_by_minute
from dashboard.runs.tables import compute_state_bar
from toolcards.core.calls import facts as f
from toolcards.models import Run, ToolCall

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(client: Client, a_person: Callable[..., Any]) -> Client:
    client.force_login(a_person("viewer", "vera"))
    return client


PAGES = ["/", "/runs/", "/calls/", "/runs/run-1/", "/runs/run-1/?tab=timeline"]


@pytest.mark.parametrize("page", PAGES)
def test_who_is_not_signed_in_is_sent_to_sign_in(client: Client, page: str) -> None:
    answer = client.get(page)
    assert answer.status_code == 302 and answer.headers["Location"].startswith("/login/?next=/")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_shows_the_call_or_its_run_and_how_many_wait(
    viewer: Client, a_call: Callable[..., ToolCall], page: str
) -> None:
    a_call("approval-requested", tool="launch")
    answer = viewer.get(page)
    html = answer.content.decode()
    assert answer.status_code == 200 and ("launch" in html or "run-1" in html)
    assert 'data-waiting-count="1"' in html and "<title>(1) " in html


def test_nothing_waits_and_the_title_is_plain(viewer: Client) -> None:
    assert "<title>Now · Toolcards</title>" in viewer.get("/").content.decode()


def test_an_empty_installation_says_what_to_do(viewer: Client) -> None:
    html = viewer.get("/").content.decode()
    assert "Connect an agent" in html and "manage.py demo" in html


@pytest.mark.parametrize(
    "name", ["a/b", "a/../b", "x?y#z", "ünïcode 日本", "with space", '"quotes"', "<b>", "50%25", "a//b"]
)
def test_a_run_may_be_called_anything(viewer: Client, a_call: Callable[..., ToolCall], name: str) -> None:
    answer = viewer.get(a_call(run=name).run.url)
    assert answer.status_code == 200 and answer.content.decode().count("<article") == 1


def test_the_run_page_has_one_article_per_call_in_order(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    for number in range(3):
        a_call(call_id=f"c{number}")
    html = viewer.get("/runs/run-1/").content.decode()
    assert html.count("<article") == 3 and re.findall(r'data-call-id="(\w+)"', html) == ["c0", "c1", "c2"]
    assert 'hx-ws:connect="/ws/runs/run-1/?source=an+agent&amp;since=' in html


def test_a_long_run_shows_its_newest_calls_and_links_to_older_ones(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_run("long", *(f.InputReady(f"c{n:03}", "Read", {"n": n}, True) for n in range(230)))
    html = viewer.get("/runs/long/").content.decode()
    assert html.count("<article") == 80 and 'data-call-id="c229"' in html and 'data-call-id="c149"' not in html
    assert 'href="/runs/long/?source=an+agent&amp;before=151"' in html
    oldest = viewer.get("/runs/long/?before=31").content.decode()
    assert oldest.count("<article") == 30 and 'data-call-id="c000"' in oldest and "data-frozen" in oldest
    assert "Older calls" not in oldest


def test_a_run_without_calls_says_so(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_run("empty")
    assert "made no tool calls" in viewer.get("/runs/empty/").content.decode()


@pytest.mark.parametrize("page", ["/runs/nothing/", "/calls/9-9/", f"/calls/{10**20}-1/", "/nothing/"])
def test_what_is_not_there_is_a_readable_404(viewer: Client, page: str) -> None:
    answer = viewer.get(page)
    assert answer.status_code == 404 and "Page not found" in answer.content.decode()


def test_the_calls_page_finds_by_every_filter(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    a_call(call_id="one", tool="Read", input={"path": "needle.txt"})
    a_call("output-error", call_id="two", tool="Bash", input={"command": "false"})
    expected = {
        "q=needle": "one",
        "state=output-error": "two",
        "tool=Bash": "two",
        "kind=read": "one",
        "agent=bot": "one",
    }
    for query, call_id in expected.items():
        assert f'data-call-id="{call_id}"' in viewer.get(f"/calls/?{query}").content.decode(), query
    assert 'data-call-id="one"' not in viewer.get("/calls/?tool=Bash").content.decode()


def test_filters_that_are_set_are_named_in_the_words_of_the_pages(
    viewer: Client, a_call: Callable[..., ToolCall]
) -> None:
    a_call("output-error", tool="Bash")
    expected = {
        "/calls/?state=output-error": "State: Failed ×",
        "/calls/?state=no-result": "State: No result ×",
        "/calls/?q=needle": "Text: needle ×",
        "/calls/?tool=Bash": "Tool: Bash ×",
        "/runs/?status=waiting": "Status: Needs approval ×",
        "/runs/?status=truncated": "Status: Lost contact ×",
    }
    for path, chip in expected.items():
        html = viewer.get(path).content.decode()
        assert re.findall(r'class="chip" href="\?" title="Remove this filter">([^<]*)<', html) == [chip], path


def test_a_filter_that_excludes_everything_offers_to_go(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    a_call()
    html = viewer.get("/calls/?tool=bash&q=nowhere").content.decode()
    assert "No call matches" in html and 'href="?tool=bash"' in html


def test_calls_that_ended_with_their_run_are_no_failures(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_run(
        "ends",
        f.InputReady("bad", "Bash", {"command": "ls"}, False), f.OutputFailed("bad", "broke"),
        f.InputReady("open", "Bash", {"command": "ls"}, False), f.RunEnded(outcome="aborted"),
    )  # fmt: skip
    for state, call in {"output-error": "bad", "no-result": "open"}.items():
        assert re.findall(r'data-call-id="(\w+)"', viewer.get(f"/calls/?state={state}").content.decode()) == [call]


@pytest.mark.parametrize(
    "query", ["state=nonsense", "kind=nonsense", "before=x", "before=-1", "before=99999999999999999999", "%ff=%fe"]
)
def test_nonsense_in_the_query_asks_for_nothing(viewer: Client, a_call: Callable[..., ToolCall], query: str) -> None:
    a_call()
    assert viewer.get(f"/calls/?{query}").status_code == 200
    assert viewer.get(f"/runs/?{query}").status_code == 200


def test_calls_come_in_pages(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_run("long", *(f.InputReady(f"c{n:03}", "Read", {"n": n}, True) for n in range(60)))
    html = viewer.get("/calls/").content.decode()
    assert html.count("<article") == 50 and "Older calls" in html
    before = html.split("?before=")[1].split('"')[0]
    assert viewer.get(f"/calls/?before={before}").content.decode().count("<article") == 10


def test_runs_are_found_by_status_and_agent(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_run("over", f.RunEnded())
    a_run("going", f.InputStarted("c", "Read"))
    assert "over" not in viewer.get("/runs/?status=running").content.decode().split("<tbody")[1]
    assert "going" in viewer.get("/runs/?status=running&agent=bot").content.decode().split("<tbody")[1]


def test_a_calls_page_is_whole_and_tells_its_story(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    call = a_call("output-denied", input={"command": "z" * 5_000})
    html = viewer.get(f"/calls/{call.public_id}/").content.decode()
    assert "z" * 5_000 in html
    for text in ("Input received", "Policy: asked", "Toolcards asked for approval", "Denied by ann"):
        assert text in html


def test_a_viewer_is_offered_no_buttons_by_the_style_sheet(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    a_call("approval-requested")
    assert 'data-can=""' in viewer.get("/").content.decode()


def test_an_approver_is(client: Client, an_approver: Any) -> None:
    client.force_login(an_approver)
    assert 'data-can="vote"' in client.get("/").content.decode()


# ---------------------------------------------------------------- signing in


def test_name_and_password_open_the_door(client: Client, a_person: Callable[..., Any]) -> None:
    a_person("viewer", "vera")
    answer = client.post(
        "/login/", {"username": "vera", "password": "a password for tests", "next": "/runs/?status=error"}
    )
    assert answer.status_code == 302 and answer.headers["Location"] == "/runs/?status=error"


@pytest.mark.parametrize(
    "expected", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil.example", "evil"]
)
def test_next_stays_on_this_site(client: Client, a_person: Callable[..., Any], expected: str) -> None:
    a_person("viewer", "vera")
    by_name = {"username": "vera", "password": "a password for tests", "next": expected}
    assert client.post("/login/", by_name).headers["Location"] == "/"


def test_a_wrong_password_shows_a_message(client: Client) -> None:
    answer = client.post("/login/", {"username": "vera", "password": "no"})
    assert answer.status_code == 200 and "Wrong name or password" in answer.content.decode()


def test_signing_out_takes_a_post(viewer: Client) -> None:
    assert viewer.get("/logout/").status_code == 405
    assert viewer.post("/logout/").headers["Location"] == "/login/"
    assert viewer.get("/").status_code == 302


# ---------------------------------------------------------------- numbers


def test_a_state_bar_fills_its_line() -> None:
    parts = compute_state_bar({"output-available": 3, "output-error": 1})
    assert [(part.word, part.x, part.width) for part in parts] == [("Done", 0.0, 75.0), ("Failed", 75.0, 25.0)]


def test_an_hour_has_sixty_bars() -> None:
    assert len(count_by_minute([])) == 60 and not any(bar.calls for bar in count_by_minute([]))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.035, "35 ms"),
        (0.84, "0.8 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (190, "3 min 10 s"),
        (7500, "2 h 5 min"),
    ],
)
def test_lengths_of_time_are_short_to_say(seconds: float, text: str) -> None:
    assert url_helpers.format_duration(seconds) == text


def test_filters_suggest_the_tools_and_agents_there_are(viewer: Client, a_call: Any) -> None:
    for number, tool in enumerate(("Bash", "Read", "Read", '<x>"', "Re\u202ead")):
        a_call(tool=tool, call_id=f"c{number}")
    html = viewer.get("/calls/").content.decode()
    tools = html.split('<datalist id="tools">')[1].split("</datalist>")[0]
    assert re.findall(r'value="([^"]*)"', tools) == ["&lt;x&gt;&quot;", "Bash", "Read"]


def a_long_run(a_run: Callable[..., Run], calls: int) -> None:
    facts = [f.InputReady(f"c{n}", "Read", {"n": n}, True) for n in range(1, calls + 1)]
    a_run("long", *facts, f.OutputFailed("c5", "it broke"), f.OutputReady("c6", 1))


def test_a_long_run_has_an_overview_whose_columns_lead_to_a_part_of_the_timeline(
    viewer: Client, a_run: Callable[..., Run]
) -> None:
    a_long_run(a_run, 900)
    html = viewer.get("/runs/long/?tab=timeline").content.decode()
    overview = html.split("data-minimap")[1].split("</figure>")[0]
    assert overview.count("<a ") == 40 and "Calls 1 to 22: 1 done, 1 failed or denied, 20 open" in overview
    assert overview.count("<path") == 3
    assert "Calls 501 to 900 of 900" in html and 'rel="prev"' in html and "Later calls" not in html
    earlier = re.search(r'around=(\d+)" rel="prev"', html)
    assert earlier
    part = viewer.get(f"/runs/long/?tab=timeline&around={earlier[1]}").content.decode()
    assert "Calls 101 to 500 of 900" in part and "Later calls" in part
    assert "&amp;tab=head" in part  # what stands still is not drawn again
    first = viewer.get("/runs/long/?tab=timeline&around=1").content.decode()
    assert "Calls 1 to 400 of 900" in first and "Earlier calls" not in first
    assert viewer.get("/runs/long/?tab=timeline&around=99999").status_code == 200


def test_the_overview_can_be_read_as_a_table(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_long_run(a_run, 900)
    html = viewer.get("/runs/long/?tab=timeline&table=1").content.decode()
    table = html.split('id="map-table"')[1].split("</table>")[0]
    rows = [re.sub(r"\s*<[^>]+>\s*", "|", row) for row in table.split("<tbody>")[1].split("</tr>")[:-1]]
    assert (
        len(rows) == 40
        and [word for word in ("Done", "Failed or denied", "Waiting", "Open") if word not in table] == []
    )
    assert re.findall(r"[^|]+", rows[0]) == ["1 to 22", "1", "1", "0", "20"]
    assert "data-minimap" not in html and html.count('<li><a href="/calls/') == 400 and "table=1&amp;around=" in html


def test_calls_per_minute_can_be_read_as_a_table(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_long_run(a_run, 7)
    html = viewer.get("/").content.decode()
    table = html.split('id="minutes-table"')[1].split("</details>")[0]
    numbers = [int(entry) for entry in re.findall(r'<td class="num">(\d+)</td>', table)]
    assert (sum(numbers[::5]), sum(numbers[4::5])) == (7, 1)  # calls, failed


def test_a_short_run_needs_no_overview(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_long_run(a_run, 300)
    html = viewer.get("/runs/long/?tab=timeline").content.decode()
    assert "data-minimap" not in html and html.count('href="/calls/') >= 300


def test_a_timeline_draws_every_call_in_its_lane(viewer: Client, a_run: Callable[..., Run]) -> None:
    facts = [f.LaneStarted(lane="sub", name="helper")]
    facts += [f.InputReady(f"c{n}", "Read", {"n": n}, True, lane="sub" if n == 3 else "") for n in range(4)]
    a_run("drawn", *facts, f.OutputReady("c0", 1), f.OutputFailed("c1", "no"))
    html = viewer.get("/runs/drawn/?tab=timeline").content.decode()
    picture = html.split('id="timeline"')[1]
    assert picture.count('<a href="/calls/') == 4 and "4 calls, 2 agents" in picture
    assert picture.count('class="glyph output-available"') == 1 and picture.count('class="glyph output-error"') == 1


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()


def test_a_picture_is_served_as_what_its_bytes_prove_and_may_do_nothing(
    viewer: Client, a_call: Callable[..., ToolCall]
) -> None:
    block = {"type": "image", "data": PNG, "mimeType": "text/html"}
    call = a_call("output-available", input={"content": [block]})
    address = f"/calls/{call.public_id}/pictures/in/0/"
    assert address in viewer.get(f"/calls/{call.public_id}/").content.decode()
    answer = viewer.get(address)
    assert answer.status_code == 200 and answer.headers["Content-Type"] == "image/png"
    assert answer.content == base64.b64decode(PNG)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    for missing in ("in/1", "in/99999999999", "out/0", "other/0"):
        assert viewer.get(f"/calls/{call.public_id}/pictures/{missing}/").status_code == 404


def test_only_an_active_run_offers_to_follow_new_calls(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_run("open", f.InputStarted("c", "bash"))
    a_run("over", f.InputStarted("c", "bash"), f.RunEnded())
    assert "data-follow" in viewer.get("/runs/open/").content.decode()
    assert "data-follow" not in viewer.get("/runs/over/").content.decode()


def test_a_part_of_the_timeline_can_be_opened_and_left(viewer: Client, a_run: Callable[..., Run]) -> None:
    address = "/runs/zoomed/?tab=timeline"
    a_run("zoomed", f.InputReady("c0", "Read", {}, True), f.OutputReady("c0", 1))
    time.sleep(0.1)
    run = a_run("zoomed", f.InputReady("c1", "Read", {}, True))
    whole = viewer.get(address).content.decode()
    assert "2 calls, 1 agent" in whole and "data-whole" not in whole
    begin = ToolCall.objects.get(run=run, ordinal=2).as_card().times.available
    later = int(begin * 1000) - 20
    html = viewer.get(f"{address}&start={later}&end={later + 900}").content.decode()
    assert "1 call, 1 agent, 0.9 s" in html and "data-whole" in html and f'data-start="{later}"' in html
    assert "&amp;tab=head" in html  # what stands still is not drawn again
    empty = viewer.get(f"{address}&start={later - 9000}&end={later - 8000}").content.decode()
    assert "No calls at this time" in empty and "data-whole" in empty
    assert "2 calls" in viewer.get(f"{address}&start=9&end=x").content.decode()


def test_the_latest_part_of_an_active_run_follows_the_clock(viewer: Client, a_run: Callable[..., Run]) -> None:
    address = "/runs/open/?tab=timeline"
    a_run("open", f.InputReady("c0", "Read", {}, True))
    assert "Zoom in on now" in viewer.get(address).content.decode()
    html = viewer.get(f"{address}&latest=60000").content.decode()
    assert "1 call, 1 agent, 60 s" in html or "1 call, 1 agent, 1 min" in html
    assert "data-moving" in html and "&amp;tab=timeline&amp;latest=60000" in html and "data-leads-to" in html
    assert "latest=30000" in html and "latest=120000" in html and "&amp;end=" in html
    for nonsense in ("0", "x", "19", str(10**17), "-5"):
        assert "data-whole" not in viewer.get(f"{address}&latest={nonsense}").content.decode()
    a_run("open", f.RunEnded())
    over = viewer.get(f"{address}&latest=60000").content.decode()
    assert "data-moving" not in over.split("<main")[1] and "1 call" in over and "data-leads-to" not in over
