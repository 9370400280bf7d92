"""URLs that lead into a private network, and URLs that have a secret in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import loop_over
from toolcards.core.policy.matching.private_addresses import has_secret, is_web_url, leads_inside
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN

INSIDE = """
http://169.254.169.254/latest/meta-data/ http://169.254.170.2/v2 http://10.0.0.1 https://172.16.3.4:8443/ http://192.168.1.1/
http://100.100.100.200/ http://168.63.129.16/ http://[fd00:ec2::254]/ http://[fe80::1]/ http://[::ffff:10.0.0.1]/
http://metadata.google.internal/x http://METADATA.google.internal./ http://metadata/ http://instance-data/
https://git.corp/ https://nas.local/ http://db.internal:8080/ http://router.lan https://kubernetes.default.svc/api
https://ok.com@10.0.0.1/ http:/169.254.169.254/ http:169.254.169.254 HTTP://10.0.0.1/ http://10.0.0.1.nip.io/
http://a.10-0-0-1.sslip.io/ ws://10.0.0.1/ ftp://10.0.0.1/x http://1%30.0.0.1/ http://\uff11\uff10.0.0.1/
"""
UNDECIDED = """
http://2852039166/ http://0xA9FEA9FE/ http://0251.0376.0251.0376/ http://169.254.43518/ http://[::a9fe:a9fe]/
http://[64:ff9b::a9fe:a9fe]/ http://vault:8200/ http://10.0.0.*/ http://a.example\\@10.0.0.1/ http://
"""
OUTSIDE = """
https://example.com/ https://example.com:8443/a?b=c#d http://1.1.1.1/ http://203.0.113.5/ https://[2606:4700::1111]/
http://localhost:3000/ http://127.0.0.1:8000/x http://[::1]/ http://0.0.0.0:5173/ http://app.localhost/
http://host.docker.internal:8080/ https://de.wikipedia.org/wiki/Gr\u00f6\u00dfe https://m\u00fcnchen.de/ https://*/x
http://*:8080/ http://127.0.0.1:*/ https://local.example.com/ https://example.com/10.0.0.1 https://internal.example.com/
https://example.com/{a}|b https://10-things.example.com/
"""


@loop_over(("text", "answer"), [
    (url, answer) for rows, answer in ((INSIDE, TRUE), (UNDECIDED, UNKNOWN), (OUTSIDE, FALSE)) for url in rows.split()
])  # fmt: skip
def test_a_url_into_a_private_network_is_found(text: str, answer: object) -> None:
    assert leads_inside(text) is answer


SECRETS = """
https://a.example/?token=ghp_0123456789abcdef0123 https://a.example/p/ghp_0123456789abcdef0123456789abcdef0123
https://ann:hunter22@a.example/ https://a.example/?password=hunter22 https://a.example/?api_key=abcd1234efgh
https://a.example/#access_token=abcd1234efgh5678 https://a.example/?x=ghp%5F0123456789abcdef0123456789abcdef0123
"""
NONE = """
https://a.example/ https://a.example/?q=how+to+rotate+a+token https://a.example/?key=name https://a.example/?page_token=2
https://a.example/docs/api-key https://a.example/2026/a-long-title-of-many-words-about-passwords
"""


@loop_over(("text", "answer"), [(url, TRUE) for url in SECRETS.split()] + [(url, FALSE) for url in NONE.split()])
def test_a_secret_in_an_address_is_found(text: str, answer: object) -> None:
    assert has_secret(text) is answer


@given(st.text(st.sampled_from("htps:/@.\\10xf[]%#?~*é\ud800 "), max_size=30))
def test_every_text_is_answered(text: str) -> None:
    answers = (FALSE, UNKNOWN, TRUE)
    assert leads_inside(text) in answers and has_secret(text) in answers and is_web_url(text) in (True, False)


@given(st.ip_addresses(v=4, network="10.0.0.0/8") | st.ip_addresses(v=6, network="fc00::/7"), st.integers(1, 65_535))
def test_no_address_of_a_private_network_leads_outside(address: object, port: int) -> None:
    host = f"[{address}]" if ":" in str(address) else str(address)
    assert leads_inside(f"http://{host}:{port}/a") is TRUE
