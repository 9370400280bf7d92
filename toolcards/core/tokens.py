"""Secrets that tell by their looks: tokens with a maker's prefix, web tokens, private keys.

A prefix that nothing else has (`ghp_`) tells even where the rest is cut off at the end of the text.
"""

from __future__ import annotations

import re

# kind, prefix, body, how much of a body is enough (0: as much as there is)
SHAPES: tuple[tuple[str, str, str, int], ...] = (
    ("github-token", r"gh[pousr]_", r"[A-Za-z0-9]", 16),
    ("github-token", r"github_pat_", r"[A-Za-z0-9_]", 16),
    ("gitlab-token", r"gl(?:pat|dt|rt|ptt|cbt|soat|ft|imt|agent)-", r"[A-Za-z0-9_.\-]", 16),
    ("slack-token", r"xox[abcdeoprs]-", r"[A-Za-z0-9\-]", 8),
    ("slack-token", r"xapp-", r"[A-Za-z0-9\-]", 16),
    ("slack-webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/", r"[A-Za-z0-9/_\-]", 8),
    ("discord-webhook", r"discord(?:app)?\.com/api/webhooks/", r"[A-Za-z0-9/_\-]", 8),
    ("stripe-key", r"[sr]k_(?:live|test)_", r"[A-Za-z0-9]", 8),
    ("stripe-key", r"whsec_", r"[A-Za-z0-9+/=]", 16),
    ("anthropic-key", r"sk-ant-", r"[A-Za-z0-9_\-]", 8),
    ("openai-key", r"sk-(?:proj|svcacct|admin|or-v1|lf)-", r"[A-Za-z0-9_\-]", 12),
    ("openai-key", r"sk-", r"[A-Za-z0-9]", 20),
    ("npm-token", r"npm_", r"[A-Za-z0-9]", 30),
    ("pypi-token", r"pypi-AgEI", r"[A-Za-z0-9_\-]", 8),
    ("google-key", r"AIza", r"[A-Za-z0-9_\-]", 30),
    ("google-token", r"ya29\.", r"[A-Za-z0-9_.\-]", 16),
    ("google-secret", r"GOCSPX-", r"[A-Za-z0-9_\-]", 16),
    ("huggingface-token", r"hf_", r"[A-Za-z0-9]", 24),
    ("sendgrid-key", r"SG\.", r"[A-Za-z0-9_.\-]", 32),
    ("digitalocean-token", r"do[opr]_v1_", r"[a-f0-9]", 16),
    ("shopify-token", r"shp(?:at|ca|pa|ss)_", r"[A-Fa-f0-9]", 16),
    ("vault-token", r"hv[sbr]\.", r"[A-Za-z0-9_\-]", 16),
    ("docker-token", r"dckr_pat_", r"[A-Za-z0-9_\-]", 8),
    ("databricks-token", r"dapi", r"[a-f0-9]", 32),
    ("linear-key", r"lin_api_", r"[A-Za-z0-9]", 16),
    ("notion-token", r"ntn_", r"[A-Za-z0-9]", 32),
    ("atlassian-token", r"ATATT3x", r"[A-Za-z0-9_=\-]", 16),
    ("age-key", r"AGE-SECRET-KEY-1", r"[A-Z0-9]", 16),
    ("aws-key", r"A(?:KIA|SIA)", r"[A-Z0-9]", 16),
    ("toolcards-key", r"tck_", r"[A-Za-z0-9_\-]", 16),
    ("sign-in-link", r"/login/link/", r"[A-Za-z0-9_:.\-]", 8),
    ("web-token", r"eyJ(?:hbGci|0eXAi|raWQi|jdHki|lbmMi|qa3Ui)", r"[A-Za-z0-9_.=\-]", 0),
)
# These also occur as ordinary words, so a cut one counts only when a good part of it is there.
_PLAIN_PREFIX = {"npm_", "sk-", "AIza", "dapi", "hf_", r"SG\.", "ntn_", "/login/link/", r"A(?:KIA|SIA)"}

PREFIXES = "|".join(prefix for _, prefix, _, _ in SHAPES)
PEM = r"-----(?:BEGIN|END) [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"


def _spelled() -> str:
    spelled = []
    for number, (_, prefix, body, enough) in enumerate(SHAPES):
        cut = 8 if prefix in _PLAIN_PREFIX else 1
        tail = rf"|{prefix}{body}{{{cut},}}\Z" if enough else ""
        spelled.append(rf"(?P<s{number}>{prefix}{body}{{{enough},}}{tail})")
    return "|".join(spelled)


LOOK = re.compile(_spelled(), re.ASCII)


def kind_of(found: re.Match[str]) -> str:
    """Return the kind of secret that LOOK has matched."""
    return SHAPES[int(str(found.lastgroup)[1:])][0]
