"""Paths that lead to secrets, those that may, and those of ordinary projects."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import loop_over
from toolcards.core.policy.matching.secret_places import load_places, split_path
from toolcards.core.policy.places.paths import may_be
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN

SECRET = """
~/.ssh ~/.ssh/ ~/.ssh/id_rsa ~ann/.ssh/x $HOME/.ssh/x ${HOME}/.aws/credentials
/home/ann/.gnupg/x /Users/ann/.kube/config
.ssh/x ./.ssh/x ../../.ssh/x ~//.ssh ~/a/../.ssh/x /a/b/c/.aws/config %USERPROFILE%\\.ssh\\id
C:\\Users\\ann\\.ssh\\id c:/Users/ann/.aws/config
/mnt/c/Users/ann/.ssh/id file:///home/ann/.ssh/id file://localhost/root/.netrc
file:///home/ann/%2Essh/id ~/.netrc /home/ann/_netrc ~/.pgpass ~/.git-credentials ~/.docker/config.json
~/.config/gcloud/application_default_credentials.json ~/.config/gh/hosts.yml ~/.config/toolcards/keys/x.key
$XDG_CONFIG_HOME/toolcards/keys /var/lib/toolcards/secret_key ~/.npmrc /home/ann/.m2/settings.xml ~/.bash_history
~/.claude/.credentials.json ~/.codex/auth.json ~/.local/share/opencode/auth.json
/proc/self/environ /proc/1/environ /proc/*/environ /proc/1/task/2/environ /proc/1/cwd/.env
/etc/shadow /etc/ssh/ssh_host_rsa_key /run/secrets/db /etc/ssl/private/a
.env app/.env .env.* .env.production .env.local /home/ann/work/app/.env.staging prod.env .envrc
id_rsa keys/id_ed25519 server.key tls/server.p12 app.keystore a.kdbx ~/prod.pem tls/privkey.pem config/master.key
credentials.json service-account-1.json client_secret_1.json
~/.mozilla/firefox/x.default/key4.db ~/Library/Keychains/login.keychain-db ~/.config/chromium/Default/Cookies
AppData/Local/Google/Chrome ~/snap/firefox/common/x ~/.password-store/a.gpg ~/.ssh/{id_rsa,config}
"""
UNDECIDED = """
~/.ss* ~/.s?h ~/.[s]sh/id ~/.* .* .e* ~/.SSH ~/.Aws/config ~/.ssh/../x ~/.ssh/../../x ~/.config/*/keys/x
~/*/keys/../.ss*
id_* i*_rsa *_ed25519 .env* ~/*.ssh/id ~/.{s,x}sh* /pro?/self/environ ~/.config/toolcar* ~/.net*
"""
ORDINARY = """
src/secrets.py .env.example app/.env.sample .env.production.example example.env .env/bin/python .env.example/
ssh aws .sshx x.ssh src/.ssh_config.py environ proc/self/environ /proc/self/status
/proc/cpuinfo /etc/hosts
x/etc/shadow .npmrc app/.npmrc /home/ann/work/app/.npmrc keys.json package.json tsconfig.json config.json
key.py test_keys.py id.txt id_generator.py cert.pem ca.pem public.key jwt-public.pem
* ** ~/* *.py *.json *.md test_* src/*.ts
app*.py docs/*.md .github/workflows/a.yml .gitignore .vscode/settings.json ~/code/app ~ / . .. ~/.bashrc ~/.config
"""


@loop_over("path", SECRET.split())
def test_a_path_to_a_secret_is_found_however_it_is_spelled(path: str) -> None:
    assert load_places().find(path) is TRUE


@loop_over("path", UNDECIDED.split())
def test_a_path_that_may_lead_to_a_secret_is_undecided(path: str) -> None:
    assert load_places().find(path) is UNKNOWN


@loop_over("path", ORDINARY.split())
def test_an_ordinary_path_leads_to_no_secret(path: str) -> None:
    assert load_places().find(path) is FALSE


def test_a_name_with_a_blank_is_a_path_and_a_sentence_is_not() -> None:
    places = load_places()
    assert places.find("/Users/ann/Library/Application Support/Google/Chrome/Default/Cookies") is TRUE
    assert places.find("/home/ann/My Files/.ssh/id") is TRUE
    assert places.find("keep ~/.ssh/config private") is FALSE and places.find("a\n~/.ssh/id") is FALSE


def test_folders_that_hold_many_secrets_are_above_them() -> None:
    for path in ("/", "~", "~/", "/home", "/home/ann", "$HOME", "~/.config", "/root", "~/*", "C:\\Users\\ann"):
        assert load_places().is_above(path), path
    for path in ("", ".", "src", "/home/ann/work", "~/work", "/tmp"):
        assert not load_places().is_above(path), path


@given(st.text(st.sampled_from("ab*?."), max_size=8), st.text(st.sampled_from("ab."), max_size=8))
def test_a_pattern_may_be_a_name_exactly_if_it_matches_it(pattern: str, name: str) -> None:
    assert may_be(pattern, name) is may_be(name, pattern) is fnmatchcase(name, pattern)


@given(st.lists(st.sampled_from(["a", ".", "..", "x y", ".b"]), max_size=6))
def test_steps_in_front_of_a_secret_never_hide_it(steps: list[str]) -> None:
    assert load_places().find("/".join(["/home/ann", *steps, ".ssh", "id"])) is TRUE


@given(st.text(st.sampled_from("~/.$\\{},*[]:%a\ud800é"), max_size=30))
def test_every_path_is_answered(path: str) -> None:
    assert load_places().find(path) in (FALSE, UNKNOWN, TRUE) and isinstance(load_places().is_above(path), bool)
    assert split_path(path).parts == split_path(path).parts


SUPERUSER = "/root"


@loop_over("path", [".ssh/id", ".docker/config.json", ".aws/credentials", "proc/1/environ"])
def test_the_home_of_the_superuser_and_the_root_of_a_process_hide_no_secret(path: str) -> None:
    place = f"/proc/1{SUPERUSER}/{path}" if path.startswith("proc") else f"{SUPERUSER}/{path}"
    assert load_places().find(place) is TRUE
