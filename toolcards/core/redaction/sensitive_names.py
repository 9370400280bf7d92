"""Sensitive names: whether a key, a flag or a variable has the name of a secret.

A name is split into words (camelCase, snake_case, kebab-case, dots); its last words decide, so that
`token_count` and `password_policy` are not secrets and `DB_PASSWORD`, `x-api-key`, `clientSecret` are.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STRONG = _words(
    "password passwords passwd passphrase passcode pwd secret secrets apikey apikeys authorization cookie cookies "
    "credential credentials jwt cvv cvc otp totp mnemonic psk"
)
# Secret only if the value is text (`pass: 12` is the number of passed tests).
WEAK = _words("token tokens auth pass pw pat bearer")
PAIRS = _words(
    "api-key api-keys access-key private-key secret-key encryption-key signing-key master-key auth-key "
    "service-key account-key shared-key ssh-key deploy-key license-key session-key storage-key host-key "
    "decryption-key hmac-key webhook-key connection-string connection-strings conn-string conn-str session-token "
    "recovery-code recovery-codes recovery-phrase seed-phrase backup-code backup-codes secret-id set-cookie "
    "amz-credential ssl-key tls-key"
)
ENDINGS = tuple(
    _words(
        "password passwd passphrase passwort apikey secretkey accesskey privatekey accountkey clientsecret "
        "apisecret appsecret authtoken accesstoken apitoken bottoken usertoken refreshtoken idtoken sessiontoken "
        "sastoken connectionstring sessid sharedaccesskey authkey encryptionkey signingkey dbpass "
        "storepass keypass"
    )
)
# A name that ends with one of these describes a secret and does not hold one.
ABOUT = _words(
    "id ids name names count counts type types kind length len size sizes limit limits max min budget usage used "
    "total expiry expires expired expiration ttl age at in on url urls uri endpoint policy policies required "
    "enabled disabled prompt hint field fields path paths file files filename dir rotation version format "
    "algorithm algo label labels placeholder regex pattern strength validator validators manager store provider "
    "ref refs reference alias arn status state mode method scheme scope scopes created updated valid ok present "
    "set exists index position offset per rate cost price usd ratio window details stats info metadata level "
    "reset change forgot button form stdin consent banner settings options config domain samesite secure httponly "
    "service key keys command cmd"
)
# These words only describe the form of the secret.
FORMS = _words(
    "value values hash b64 base64 plain plaintext raw new old confirm confirmation again repeat string str text "
    "bytes hex json header prod production dev staging test local default env var"
)
# Words before `token` that make it a position in a list or a token of a language model.
COUNT_WORDS = _words(
    "page next previous prev continuation continue cursor sync resume resumption eos bos pad unk cls sep mask "
    "stop special end start added max min num total input output prompt completion cached reasoning unexpected "
    "current change delta pagination scroll watermark syntax word image audio text"
)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", re.ASCII)
LONGEST = 120  # characters at the end of a name, which decide


def split_name(name: str) -> list[str]:
    """Return the name's words in lower case: `nextPageToken` is next, page, token."""
    return [word.lower() for word in _WORD.findall(name[-LONGEST:])]


def classify_name(name: str) -> str:
    """Return how certainly the name holds a secret: `strong`, `weak` or ``."""
    return _classify_ending(name[-LONGEST:])  # the cache keeps no long names


@lru_cache(maxsize=8_192)
def _classify_ending(name: str) -> str:
    words = [word for word in split_name(name) if not word.isdigit()]
    while len(words) > 1 and words[-1] in FORMS and "-".join(words[-2:]) not in PAIRS:
        words.pop()
    if not words:
        return ""
    last = words[-1]
    if "-".join(words[-2:]) in PAIRS or last in STRONG or last.endswith(ENDINGS):
        return "strong"
    if last in WEAK:
        return "" if last.startswith("token") and COUNT_WORDS.intersection(words[:-1]) else "weak"
    if last in ABOUT:
        return ""
    return "weak" if len(words) > 1 and (STRONG.intersection(words[-2:]) or "-".join(words[-3:-1]) in PAIRS) else ""


def is_secret_value(name: str, value: Any) -> bool:
    """Return whether the value must be masked because of its name."""
    strength = classify_name(name)
    if not strength or value is None or isinstance(value, bool) or value == "":
        return False
    return strength == "strong" or not isinstance(value, (int, float))


# The two members of a pair that stores a name and its value: of HAR, Kubernetes, AWS, OpenTelemetry, forms.
_NAMES = _words(
    "name key header field variable param parameter label option id k headername paramname parametername parameterkey "
    "optionname fieldname envname variablename settingname"
)
_VALUES = _words(
    "value val v values parametervalue optionvalue stringvalue headervalue fieldvalue secretvalue plaintext rawvalue "
    "envvalue variablevalue settingvalue paramvalue keyvalue defaultvalue currentvalue newvalue"
)
_TEXTS = _words("default content text data body")  # also used in other objects


@lru_cache(maxsize=1_024)
def classify_value_member(member: str) -> str:
    """Return the role of a pair's member: `name`, `value`, `words` or ``."""
    plain = member.replace("_", "").replace("-", "").lower()
    if plain in _NAMES:
        return "name"
    return "value" if plain in _VALUES else "words" if plain in _TEXTS else ""
