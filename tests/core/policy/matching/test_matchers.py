"""One table per matcher: value, what the rule says, the answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tables import loop_over
from toolcards.core.policy.matching import matchers
from toolcards.core.policy.matching.matchers import MATCHERS
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN, Truth

T, F, U = TRUE, FALSE, UNKNOWN
HOSTS = ["good.com", "*.wild.org", "[::1]", "10.0.0.1", "port.net:8443"]
NETS = ["10.0.0.0/8", "127.0.0.0/8", "fd00::/8"]
TABLE = {
    "eq": [
        (1, 1, T), (1.0, 1, T), (True, 1, F), (1, True, F), ("1", 1, F), (None, None, T),
        ({"b": 1, "a": [2]}, {"a": [2.0], "b": 1}, T),
        ("git status\n", "git status", F), (2**60, 1, U), ("\ud800", "x", U), (float("nan"), 1, U), (0, False, F),
        ("", None, F),
    ],
    "in": [("a", ["a", "b"], T), ("c", ["a"], F), (True, [1], F), ([1], [[1]], T), (2**60, [1], U)],
    "prefix": [("git push", "git ", T), ("x", ["y", "x"], T), ("Git", "git", F), (1, "1", U), (["rm"], "rm", U),
    ("\udc00", "x", U)],
    "glob": [
        ("a.py", "*.py", T), ("a.py\n", "*.py", F), ("x\ny.py", "*.py", T), ("rm", "r[m]", F), ("r[m]", "r[m]", T),
        ("rm", "r?", F),
        ("aXbXc", "a*b*c", T), ("abc", "a*bc*c", F), ("A", "a", F), ("", "*", T), (None, "*", U),
        ("a" * 70_000, "*", U),
    ],
    "re2": [("git status", "git (status|diff)", T), ("git status\n", "git status", F), ("a\nb", "a.b", F),
    ("a" * 5000, "(a+)+", T),
            ("a" * 5000 + "b", "(a+)+", F), (5, "5", U), ("ünï", "ün.", T)],
    "exists": [(None, None, T), ("", True, T)],
    "absent": [(None, None, F)],
    "type": [("", "string", T), (1, "number", T), (1, "integer", T), (1.5, "integer", F), (True, "number", F),
    (None, "null", T),
             ([], ["object", "array"], T), ({}, "object", T), (1j, "number", U)],
    "len_gt": [("abc", 2, T), ("ab", 2, F), ([1, 2, 3], 2, T), ({"a": 1}, 1, F), (5, 1, U), (None, 0, U)],
    "gt": [(2, 1, T), (1, 1, F), ("2", 1, U), (True, 0, U), (float("nan"), 0, U), (2**70, 1, T)],
    "lt": [(0.5, 1, T), (1, 1, F), ([], 1, U)],
    "path_under": [
        ("/data/a", "/data", T), ("/data", "/data", T), ("/data/", "/data/", T), ("/database", "/data", F),
        ("/etc/passwd", "/data", F),
        ("/data//a", "/data", T), ("/data/./a", "/data", T), ("/data/../etc/passwd", "/data", U),
        ("/data/.*/etc", "/data", U), ("/data/.?/etc", "/data", U), ("/data/{..,x}/etc", "/data", U),
        ("/data/[id]/x", "/data", T), ("/data/{id}", "/data", T),
        ("/data/a/../b", "/data", U),
        ("/etc/../data/a", "/etc", U), ("//data/a", "/data", U), ("data/a", "/data", U), ("/data/a", "data", U),
        ("data/a", "data", T),
        ("./data/a", "data", T), ("data2", "data", F), ("../data", "data", U), ("~/data", "/data", U),
        ("~/data/a", "~/data", U), ("~", "~", U), ("~/../etc", "~", U), ("/home/ann", "~", U), ("a~/b", "a~", T),
        ("/data\u2215a", "/data", U), ("/data\u29f8a", "/data", U), ("/data\uff0fa", "/data", U), ("/data\u2044a",
        "/data", U),
        ("/data/a\u2215..\u2215..\u2215etc", "/data", U), ("/data/a\uff3cb", "/data", U), ("/data/a\u2216b", "/data",
        U),
        ("/data/\u2024\u2024/etc", "/data", U), ("/data/a\tb", "/data", U), ("\uff0fdata/a", "/data", U),
        ("\u2215etc", "/data", U),
        ("~bob/data", "~/data", U), ("$HOME/data", "/data", U), ("/data/$x", "/data", U), ("%TEMP%/x", "/data", U),
        ("/data\\a", "/data", U),
        ("/Data/a", "/data", U), ("/ｄata/a", "/data", U), ("/däta/a", "/data", F), ("/data/a\0b", "/data", U),
        ("/data\u200b/a", "/data", U),
        ("/proc/self/root/etc", "/etc", U), ("/proc/self/cwd", "/data", U), ("/proc/1", "/proc", T),
        ("/dev/fd/3", "/etc", U), ("/", "/", T),
        ("/etc", "/", T), ("file:///data/a", "/data", U), ("C:\\data\\a", "c:/Data", T),
        ("C:\\data..\\a", "C:\\data", U), ("D:\\data", "C:\\data", U),
        ("C:\\data\\..\\x", "C:\\data", U), ("C:\\PROGRA~1\\x", "C:\\Program Files", U),
        ("C:\\data\\a:stream", "C:\\data", U), ("\\\\host\\s", "C:\\s", U),
        ("C:data", "C:\\data", U), ("", "/data", U), (" /data", "/data", U), ("/data/[id]/a", "/data", T),
        ("/d*/a", "/data", U), ("/etc/*", "/data", F),
        ("/data/%2e%2e/x", "/data", U), (5, "/data", U), (["/data"], "/data", U), ("/a/b", ["/x", "/a"], T),
    ],
    "host_in": [
        ("https://good.com", HOSTS, T), ("https://good.com/a?b#c", HOSTS, T), ("HTTPS://GOOD.com:443/", HOSTS, T),
        ("https://good.com.", HOSTS, T),
        ("https://evil.com", HOSTS, F), ("https://good.com.evil.com", HOSTS, F), ("https://evilgood.com", HOSTS, F),
        ("https://a.good.com", HOSTS, F),
        ("https://a.wild.org", HOSTS, T), ("https://a.b.wild.org", HOSTS, T), ("https://wild.org", HOSTS, F),
        ("https://evilwild.org", HOSTS, F),
        ("https://good.com@evil.com", HOSTS, U), ("https://evil.com@good.com", HOSTS, U),
        ("https://evil.com\\@good.com", HOSTS, U),
        ("https://evil.com#@good.com", HOSTS, U), ("https://evil.com?@good.com", HOSTS, U),
        ("https://evil.com/#@good.com", HOSTS, F),
        ("https://evil.com/@good.com", HOSTS, F),
        ("good.com", HOSTS, U), ("//good.com", HOSTS, U), ("https:good.com", HOSTS, U),
        ("https:///good.com", HOSTS, U), ("javascript:1", HOSTS, U),
        ("https://gооd.com", HOSTS, U), ("https://good。com", HOSTS, U), ("https://ｇood.com", HOSTS, U),
        ("https://good.com%2eevil.com", HOSTS, U),
        ("https://goo\td.com", HOSTS, U), (" https://good.com", HOSTS, U), ("https://good.com\n", HOSTS, U),
        ("https://good..com", HOSTS, U),
        ("https://good.com..", HOSTS, U), ("https://[::1]/", HOSTS, T), ("http://[0:0::1]:80/", HOSTS, T),
        ("https://[::1%25eth0]/", HOSTS, U),
        ("https://[::ffff:10.0.0.1]/", HOSTS, T), ("https://10.0.0.1:9/", HOSTS, U),
        ("https://167772161/", HOSTS, U), ("https://0x0a.0.0.1", HOSTS, U),
        ("https://012.0.0.1", HOSTS, U), ("https://10.1", HOSTS, U), ("https://good.com:99999", HOSTS, U),
        ("https://good.com:x", HOSTS, U),
        ("https://port.net:8443/", HOSTS, T), ("https://port.net/", HOSTS, F), ("https://", HOSTS, U),
        ("https://xn--gd-fmca.com", HOSTS, F),
        ("file://good.com/etc/passwd", HOSTS, U), ("gopher://good.com/", HOSTS, U), ("ssh://good.com/", HOSTS, U),
        ("ftp://good.com/", HOSTS, U), ("ws://good.com/", HOSTS, U), ("https://good.com:22/", HOSTS, U),
        ("https://good.com:80/", HOSTS, U), ("http://good.com:443/", HOSTS, U), ("http://good.com:80/", HOSTS, T),
        ("https://good.com:/", HOSTS, T), ("https://good.com:0443/", HOSTS, U), ("https://good.com:0/", HOSTS, U),
        ("file://evil.com/x", HOSTS, F), ("file:///etc/passwd", HOSTS, U), ("ftp://port.net:8443/", HOSTS, U),
        ("https://port.net:8443@evil.com/", HOSTS, U), ("https://port.net:84430/", HOSTS, U), ("http://port.net:8443",
        HOSTS, T),
        ("ssh://git.org/", ["ssh://git.org"], T), ("https://git.org/", ["ssh://git.org"], F), ("ssh://git.org:22",
        ["SSH://git.org"], T),
        ("ssh://git.org:2222", ["ssh://git.org"], U), ("ssh://git.org:2222", ["ssh://git.org:2222"], T),
        ("http://any.org:8080/", ["any.org:*"], T), ("ssh://any.org:8080/", ["any.org:*"], U), ("wss://any.org/",
        ["wss://*.org"], T),
        ("foo://any.org/", ["foo://any.org"], T), ("foo://any.org:1/", ["foo://any.org"], U), ("foo://any.org/",
        ["any.org:80"], U),
        ("http://[2002:a00:1::]/", HOSTS, U),
        ("http://[::ffff:0:10.0.0.1]/", HOSTS, U),
        ("http://[64:ff9b::a00:1]/", HOSTS, U), ("http://[::a00:1]/", HOSTS, U),
        ("http://[fe80::5efe:a00:1]/", HOSTS, U), ("http://[2a00::1]/", HOSTS, F), ("http://0.0.0.0/", HOSTS, U),
        ("http://0xa000001/", HOSTS, U), ("http://10.0.0.1./", HOSTS, T), ("http://10.0.0.01/", HOSTS, U),
        ("http://10.0.1/", HOSTS, U),
        ("http://good.com\x00.evil.com/", HOSTS, U), ("http://good.com%00/", HOSTS, U), ("http:\\\\good.com/",
        HOSTS, U),
        ("http://good\n.com/", HOSTS, U), ("http://good.com\u2028/", HOSTS, U), ("http://xn--good-.com/", HOSTS, U),
        (None, HOSTS, U), ({"url": "https://good.com"}, HOSTS, U), ("https://good.com-", HOSTS, U),
        ("https://;good.com", HOSTS, U),
    ],
    "cidr": [
        ("10.1.2.3", NETS, T), ("11.0.0.1", NETS, F), ("127.0.0.1:80", NETS, T), ("http://10.0.0.1/x", NETS, T),
        ("::ffff:10.0.0.1", NETS, T),
        ("http://[::ffff:7f00:1]/", NETS, T), ("fd00::1", NETS, T), ("2a00::1", NETS, F), ("::1", NETS, U),
        ("::10.0.0.1", NETS, U), ("64:ff9b::a00:1", NETS, U),
        ("2002:0a00:0001::", NETS, U), ("167772161", NETS, U), ("0xa000001", NETS, U), ("010.0.0.1", NETS, U),
        ("10.1", NETS, U), ("localhost", NETS, U),
        ("ssh://10.0.0.1/", NETS, U), ("http://10.0.0.1:22/", NETS, U), ("10.0.0.1:22", NETS, U),
        ("file://10.0.0.1/x", NETS, U),
        ("http://10.0.0.1:22/", ["10.0.0.0/8:22"], T), ("10.0.0.1:22", ["10.0.0.0/8:*"], T), ("http://10.0.0.1/",
        ["10.0.0.0/8:22"], F),
        ("[fd00::1]:8080", ["[fd00::/8]:8080"], T), ("http://[fd00::1]/", ["[fd00::/8]:8080"], F), ("10.0.0.1",
        ["10.0.0.0/8:22"], U),
        ("fe80::5efe:a00:1", NETS, U), ("0.0.0.0", NETS, U), ("http://11.0.0.1:22/", NETS, F), ("::ffff:a00:1",
        NETS, T),
        ("http://localhost/", NETS, U), (167772161, NETS, U), ("fe80::1%eth0", NETS, U), ("10.0.0.0/8", NETS, U),
        ("１0.0.0.1", NETS, U), ("", NETS, U),
    ],
    "avoids": [
        ("~/.ssh/id_ed25519", "secrets", F), ("~/.ss*", "secrets", U), ("src/a.py", "secrets", T), (5, "secrets", T),
        ("http://10.0.0.1/", ["secrets", "private-address"], F), ({"command": "cat < ~/.netrc"}, "secrets", F),
    ],
    "inside_project": [("a", None, U), ("/etc/a", None, U), (5, None, U)],
    "reads_sql": [("select 1", None, T), ("delete from t", None, U), (5, None, F)],
    "reads_by_name": [("a", None, U), (5, None, U)],
    "tool_only": [("a", "reads", U), (5, ["notes", "pages", "queries"], U)],
    "harms": [("rm -rf ~", "system", F), (5, ["gate", "history"], F)],
    "cmd": [("rm x", "rm", T), ("ls", "rm", F), ("ls; sudo rm x", "rm", T)],
    "effect": [
        ("rm x", "deletes", T), ("rm x", "writes", T), ("ls", "writes", F), ("ls; sudo rm x", ["sends", "deletes"], T),
        ("curl x", "sends", T), ("timeout 5 ls", "runs", T), ("ls -l", "none", T), ("make", "runs", T), (5, "runs", F),
    ],
    "touches": [
        ("~/.ssh/id_ed25519", "secrets", T), ({"a": {"b": ["x", "/home/ann/.aws/credentials"]}}, "secrets", T),
        ("~/.ss*", "secrets", U), ("src/secrets.py", "secrets", F), ("see ~/.ssh for keys", "secrets", F),
        ({"command": "cat < ~/.netrc"}, ["secrets", "private-address"], T), (None, "secrets", F), (5, "secrets", F),
        ("http://10.0.0.1/", "private-address", T), ("http://10.0.0.1/", "secrets", F),
        ("http://localhost:3000/", "private-address", F), ("http://2852039166/", "private-address", U),
        ("https://a.example/?token=ghp_0123456789abcdef0123", "secrets", T), ("\ud800/.ssh", "secrets", T),
    ],
}  # fmt: skip
ROWS = [(op, *row) for op, rows in TABLE.items() for row in rows]


@loop_over(("op", "value", "expected", "answer"), ROWS)
def test_table(op, value, expected, answer):
    matcher = MATCHERS[op]
    assert matchers.match_value(matcher, value, matcher.shape.prepare(expected)) is answer


REFUSED_VALUES = [
    ("eq", float("nan")), ("in", "a"), ("in", []), ("prefix", 1), ("prefix", []), ("glob", [1]), ("re2", "(?=x)"),
    ("re2", "(a"), ("re2", r"(a)\1"),
    ("re2", "a" * 2000), ("re2", "\udc00"), ("exists", "x"), ("type", "int"), ("len_gt", -1), ("len_gt", True),
    ("gt", "1"), ("lt", None), ("path_under", "/a/../b"),
    ("path_under", ""), ("path_under", "/a*"), ("host_in", "https://a.com/x"), ("host_in", "://a.com"), ("host_in",
    "a.com:80:*"), ("host_in", "a.com:0"),
    ("host_in", "u@a.com"), ("cidr", "10.0.0.0/8:x"), ("cidr", "10.0.0.0/8:0"), ("cidr", "[10.0.0.1/8]:80"),
    ("path_under", "~bob/x"), ("host_in", "gооd.com"),
    ("host_in", "a b"), ("host_in", "*.10.0.0.1"),
    ("host_in", ""), ("cidr", "10.0.0.1/8"), ("cidr", "x"), ("cmd", " "), ("cmd", []), ("cmd", None),
    ("inside_project", "a"), ("reads_sql", "a"), ("touches", "files"), ("touches", []), ("touches", None),
    ("harms", "files"), ("harms", []), ("harms", None),
    ("effect", "breaks"), ("effect", []), ("effect", None),
]  # fmt: skip


@loop_over(("op", "expected"), REFUSED_VALUES)
def test_values_that_an_operator_cannot_use_are_refused(op, expected):
    with pytest.raises(ValueError):
        MATCHERS[op].shape.prepare(expected)


def test_every_matcher_is_tested_and_explains_itself():
    assert set(TABLE) == set(MATCHERS)
    assert all(matcher.help and matcher.label and matcher.shape.input for matcher in MATCHERS.values())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
SAMPLES = {op: rows[0][1] for op, rows in TABLE.items()}


@settings(deadline=None)
@given(st.sampled_from(sorted(MATCHERS)), json_values)
def test_a_matcher_always_answers(op, value):
    matcher = MATCHERS[op]
    assert matchers.match_value(matcher, value, matcher.shape.prepare(SAMPLES[op])) in Truth


@settings(deadline=None)
@given(
    st.sampled_from(["path_under", "host_in", "cidr", "touches"]),
    st.text(st.sampled_from("htps:/@.\\goodcm10xf[]%#?~$C \t*-"), max_size=30),
)
def test_places_always_answer(op, value):
    matcher = MATCHERS[op]
    assert matchers.match_value(matcher, value, matcher.shape.prepare(SAMPLES[op])) in Truth
