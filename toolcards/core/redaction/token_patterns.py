"""Secrets with a known form: tokens with a vendor's prefix, web tokens, private keys.

A unique prefix (`ghp_`) is enough, even if the text ends right after it. A plain prefix, which ordinary words also
have (`sk-`), counts only with most of its body, including a capital or a digit. The shapes are those that vendors
document or that secret scanners look for (gitleaks, TruffleHog, detect-secrets).
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Shape(NamedTuple):
    """One kind of token; `enough` is the required length of its body (0: any).

    `anchor`: how the prefix ends, if its beginning looks like any word. Such tokens are searched for by their anchor:
    by their beginning, each word of a text could be one, and base64 took 25 times as long to search.
    """

    kind: str
    prefix: str
    body: str
    enough: int
    plain: bool = False
    anchor: str = ""

    @property
    def least(self) -> int:
        """Return the minimum length of the body, also where a text ends."""
        return min(self.enough, _CUT_PLAIN if self.plain else _CUT)


_CUT, _CUT_PLAIN = 1, 8
_LETTERS, _WORD, _DOTTED = r"[A-Za-z0-9]", r"[A-Za-z0-9_\-]", r"[A-Za-z0-9_.\-]"
_B64 = r"[A-Za-z0-9+/=]"


def _rows(text: str) -> list[tuple[str, str]]:
    """Return (kind, prefix) of each line: a kind, then its prefixes."""
    return [(kind, prefix) for kind, *prefixes in map(str.split, text.strip().splitlines()) for prefix in prefixes]


# At least sixteen letters, digits, `_` and `-`; the prefix is unique.
_STRICT = r"""
github-token      gh[pousr]_ github_pat_
slack-token       xapp-
google-secret     GOCSPX-
vault-token       hv[sbr]\.
docker-token      dckr_(?:pat|oat)_
linear-key        lin_(?:api|oauth)_
atlassian-token   AT(?:ATT|CTT|BB)[0-9A-Za-z]{2}
toolcards-key     tc[kp]_
openai-key        sk-(?:proj|svcacct|admin|None|or-v1|lf)-
shopify-token     shp(?:at|ca|pa|ss)_ shptka_
digitalocean-token do[opr]_v1_
"""
# The same, but at least twenty, and not only small letters as in names of programs.
_PLAIN = r"""
groq-key          gsk_
xai-key           xai-
perplexity-key    pplx-
langsmith-key     lsv2_(?:pt|sk)_
pinecone-key      pcsk_
nvidia-key        nvapi-
tavily-key        tvly-
together-key      tgp_v1_
sandbox-key         e2b_
supabase-key      sb_secret_ sbp_
planetscale-token pscale_(?:tkn|pw|oauth)_
netlify-token     nfp_
fly-token         fm[12]_ fo1_
heroku-key        HRKU-
render-key        rnd_
doppler-token     dp\.(?:pt|st|ct|sa|scim|audit)\.
pulumi-token      pul-
newrelic-key      NRAK- NRII-
grafana-token     gl(?:sa|c)_
sentry-token      sntry[usi]_
sonar-token       sq[upa]_
circleci-token    CCIP(?:AT|RJ)_
buildkite-token   bk[ua]a_
postman-key       PMAK-
tailscale-key     tskey-
figma-token       fig[dou]_
contentful-token  CFPAT-
sendinblue-key    x(?:keysib|smtpsib)-
mailersend-key    mlsn\.
square-token      sq0(?:atp|csp)-
hubspot-key       pat-(?:na|eu|ap)[0-9]-
prefect-key       pn[ub]_
readme-key        rdme_
openshift-token   sha256~
mongodb-secret    mdb_sa_sk_
onepassword-token ops_eyJ
bedrock-key       ABSK[A-Za-z0-9]{4} bedrock-api-key-
"""

SHAPES: tuple[Shape, ...] = (
    *(Shape(kind, prefix, _WORD, 16) for kind, prefix in _rows(_STRICT)),
    *(Shape(kind, prefix, _WORD, 20, plain=True) for kind, prefix in _rows(_PLAIN)),
    Shape("gitlab-token", r"(?:gl(?:pat|dt|rt|ptt|cbt|soat|ft|imt|agent|ffct|oas|wt|rtr)-|GR1348941)", _DOTTED, 16),
    Shape("dynatrace-token", r"dt0[a-z][0-9]{2}\.", _DOTTED, 20, plain=True),
    Shape("slack-token", r"xox[abcdeoprs][-.]", r"[A-Za-z0-9.\-]", 8),
    Shape("slack-webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/", r"[A-Za-z0-9/_\-]", 8),
    Shape("discord-webhook", r"discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/", r"[A-Za-z0-9/_\-]", 8),
    Shape("teams-webhook", r"webhook\.office\.com/webhookb2/", r"[A-Za-z0-9/_@\-]", 8),
    Shape("terraform-token", r"[A-Za-z0-9]{14}\.atlasv1\.", _WORD, 16, anchor=r"\.atlasv1\."),
    Shape(
        "discord-token",
        r"[MNO][A-Za-z0-9_\-]{23,27}\.[A-Za-z0-9_\-]{6}\.",
        _WORD,
        24,
        anchor=r"\.[A-Za-z0-9_\-]{6}\.",
    ),
    Shape("telegram-token", r"[0-9]{8,10}:AA", _WORD, 30, anchor=":AA"),
    Shape("stripe-key", r"[sr]k_(?:live|test)_", _LETTERS, 8),
    Shape("stripe-key", r"whsec_", _B64, 16),
    Shape("anthropic-key", r"sk-ant-", _WORD, 8),
    Shape("openai-key", r"sk-", _LETTERS, 20, plain=True),
    Shape("elevenlabs-key", r"sk_", r"[a-f0-9]", 40, plain=True),
    Shape("npm-token", r"npm_", _LETTERS, 30, plain=True),
    Shape("pypi-token", r"pypi-Ag(?:EI|EN)", _WORD, 8),
    Shape("rubygems-key", r"rubygems_", r"[a-f0-9]", 16),
    Shape("neon-key", r"napi_", r"[a-z0-9]", 40, plain=True),
    Shape("nuget-key", r"oy2[a-z0-9]{4}", r"[a-z0-9]", 39, plain=True),
    Shape("google-key", r"AIza", _WORD, 30, plain=True),
    Shape("google-key", r"AQ\.Ab8", _WORD, 30, plain=True),
    Shape("google-token", r"ya29\.", _DOTTED, 16),
    Shape("google-token", r"1//0[0-9a-z]", _WORD, 36, plain=True),
    Shape("huggingface-token", r"hf_", _LETTERS, 24, plain=True),
    Shape("huggingface-token", r"api_org_", _LETTERS, 24),
    Shape("replicate-token", r"r8_", _LETTERS, 30, plain=True),
    Shape("sendgrid-key", r"SG\.", _DOTTED, 32, plain=True),
    Shape("mailgun-key", r"key-[0-9a-f]{4}", r"[0-9a-f]", 28, plain=True),
    Shape("mailchimp-key", r"[0-9a-f]{32}-us", r"[0-9]", 1, anchor="-us"),
    Shape("resend-key", r"re_[A-Za-z0-9]{8}_", _LETTERS, 16, plain=True),
    Shape("twilio-key", r"SK[0-9a-f]{8}", r"[0-9a-f]", 24, plain=True),
    Shape("databricks-token", r"dapi", r"[a-f0-9]", 32, plain=True),
    Shape("notion-token", r"ntn_", _LETTERS, 32, plain=True),
    Shape("notion-token", r"secret_", _LETTERS, 43, plain=True),
    Shape("airtable-token", r"pat[A-Za-z0-9]{14}\.", r"[a-f0-9]", 48),
    Shape("azure-secret", r"[A-Za-z0-9_~.\-]{3}[0-9]Q~", r"[A-Za-z0-9_~.\-]", 31, plain=True, anchor="Q~"),
    Shape("aws-key", r"A(?:KIA|SIA|BIA|CCA)", r"[A-Z0-9]", 16, plain=True),
    Shape("alibaba-key", r"LTAI", _LETTERS, 16, plain=True),
    Shape("facebook-token", r"EAA[A-Za-z0-9]{4}", _LETTERS, 60, plain=True),
    Shape("dropbox-token", r"sl\.u?\.?[A-Za-z0-9]{4}", _WORD, 80, plain=True),
    Shape("plaid-token", r"access-(?:sandbox|development|production)-", r"[a-f0-9\-]", 32),
    Shape("artifactory-key", r"AKCp[A-Za-z0-9]{4}", _LETTERS, 60, plain=True),
    Shape("mapbox-token", r"[st]k\.eyJ", _DOTTED, 24),
    Shape("age-key", r"AGE-SECRET-KEY-(?:PQ-)?1", r"[A-Z0-9]", 16),
    Shape("sign-in-link", r"/login/link/", r"[A-Za-z0-9_:.\-]", 8, plain=True),
    Shape("web-token", r"eyJ(?:hbGci|0eXAi|raWQi|jdHki|lbmMi|qa3Ui|4NXQi|6aXAi)", r"[A-Za-z0-9_.=\-]", 0),
)

PREFIXES = "|".join(shape.prefix for shape in SHAPES)
CANDIDATES = "|".join(f"{shape.prefix}{shape.body}{{{shape.least}}}" for shape in SHAPES if not shape.anchor)
ANCHORS = "|".join(f"{shape.anchor}{shape.body}{{{shape.least}}}" for shape in SHAPES if shape.anchor)
PEM = r"-----?-?(?: )?(?:BEGIN|END) [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?----"


def _list_spellings() -> str:
    alternatives = []
    for number, shape in enumerate(SHAPES):
        tail = rf"|{shape.prefix}{shape.body}{{{shape.least},}}\Z" if shape.enough else ""
        alternatives.append(rf"(?P<s{number}>{shape.prefix}{shape.body}{{{shape.enough},}}{tail})")
    return "|".join(alternatives)


LOOK = re.compile(_list_spellings(), re.ASCII)
# The beginning of a token at the end of an incomplete text: too short to decide.
BEGINNING = re.compile(
    "|".join(rf"{shape.prefix}{shape.body}{{0,{shape.enough}}}\Z" for shape in SHAPES if shape.plain), re.ASCII
)


def match_token(hay: str, start: int, end: int) -> re.Match[str] | None:
    """Return the token between this position and `end`, or None.

    A word in small letters with a plain prefix is not a token.
    """
    match = LOOK.match(hay, start, end)
    if match is None or match.group().startswith("/"):
        return match
    number = int(str(match.lastgroup)[1:])
    if not SHAPES[number].plain:
        return match
    prefix = _PREFIXES[number].match(hay, start)
    return None if prefix and _WORDS.fullmatch(hay, prefix.end(), match.end()) else match


LONGEST_LEAD = 32  # characters before an anchor
_WORD_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf]))"  # also after `\n` in JSON text
STARTS_WORD = re.compile(_WORD_START)
_LEADS = [
    (re.compile(shape.anchor), re.compile(rf"{_WORD_START}(?={shape.prefix.removesuffix(shape.anchor)}\Z)"))
    for shape in SHAPES
    if shape.anchor
]


def list_anchored_starts(hay: str, anchor_start: int) -> list[int]:
    """Return where the token with the anchor at this position may begin."""
    first = max(0, anchor_start - LONGEST_LEAD)
    leads = [lead for anchor, lead in _LEADS if anchor.match(hay, anchor_start)]
    return [match.start() for lead in leads for match in lead.finditer(hay, first, anchor_start)]


# Identifiers in programs: small letters, or a few words with capitals.
_WORDS = re.compile(r"[a-z_.\-]+|[a-z]+(?:[A-Z][a-z]+){1,4}", re.ASCII)
_PREFIXES = [re.compile(shape.prefix, re.ASCII) for shape in SHAPES]


def name_kind(match: re.Match[str]) -> str:
    """Return the kind of secret that LOOK has matched."""
    return SHAPES[int(str(match.lastgroup)[1:])].kind
