"""A push service on loopback, and browsers that decrypt what it gets: RFC 8291 from the browser's side.

The decryption shares no code with the server: the key derivation is written out with HMAC.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def mac(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"".join(parts), hashlib.sha256)


class Browser:
    """The keys of a subscription."""

    def __init__(self, private: str = "", auth: str = "BTBZMqHH6r4Tts7J_aSIgg") -> None:
        number = int.from_bytes(decode(private), "big") if private else 0
        curve = ec.SECP256R1()
        self.key = ec.derive_private_key(number, curve) if number else ec.generate_private_key(curve)
        self.auth = auth
        self.point = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def fields(self, endpoint: str) -> dict[str, str]:
        """Return the form that the page posts."""
        return {"endpoint": endpoint, "public_key": encode(self.point), "auth": self.auth}

    def decrypt(self, body: bytes) -> bytes:
        """Return the text of a message of one record."""
        assert len(body) <= 4096 and int.from_bytes(body[16:20], "big") >= len(body) - 86 and body[20] == 65
        salt, sender, sealed = body[:16], body[21:86], body[86:]
        shared = self.key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender))
        secret = mac(mac(decode(self.auth), shared), b"WebPush: info\x00", self.point, sender, b"\x01")
        start = mac(salt, secret)
        key = mac(start, b"Content-Encoding: aes128gcm\x00\x01")[:16]
        nonce = mac(start, b"Content-Encoding: nonce\x00\x01")[:12]
        padded = AESGCM(key).decrypt(nonce, sealed, None).rstrip(b"\x00")
        assert padded[-1:] == b"\x02"
        return padded[:-1]


def verify_authorization(header: str, origin: str, now: float) -> dict[str, Any]:
    """Return the claims of a VAPID header, after all checks of RFC 8292."""
    scheme, _, parameters = header.partition(" ")
    values = dict(each.strip().split("=", 1) for each in parameters.split(","))
    head, body, signature = values["t"].split(".")
    raw = decode(signature)
    assert scheme == "vapid" and json.loads(decode(head)) == {"typ": "JWT", "alg": "ES256"} and len(raw) == 64
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decode(values["k"]))
    encoded = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key.verify(encoded, f"{head}.{body}".encode(), ec.ECDSA(SHA256()))
    claims: dict[str, Any] = json.loads(decode(body))
    assert claims["aud"] == origin and now < claims["exp"] <= now + 86_400
    assert claims["sub"].startswith(("mailto:", "https:"))
    return claims


class PushService(ThreadingHTTPServer):
    """Keeps each request: path, headers and body. Its answers can be set."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 201
        self.answer_headers: dict[str, str] = {}
        super().__init__(("127.0.0.1", 0), _Handler)
        self.host = f"127.0.0.1:{self.server_port}"

    def endpoint(self, name: str = "one") -> str:
        return f"http://{self.host}/push/{name}"

    def __enter__(self) -> PushService:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: PushService

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, dict(self.headers.items()), body))
        self.send_response(self.server.status)
        for name, value in self.server.answer_headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


BROWSER = Browser()
ENDPOINT = "https://push.example/send/abc"
