"""An issuer of bearer tokens as the server is told to trust one, and a certificate for https: keys are made here and nowhere kept."""

import base64
import datetime
import ipaddress
import json
import time
import uuid

from azure.core.credentials import AccessToken
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

ISSUER = "https://issuer.example/tenant/"
AUDIENCE = "https://storage.azure.com"
TENANT = "bbbbbbbb-0000-4000-8000-000000000001"


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value):
    return encode(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class Issuer:
    def __init__(self, name="one"):
        self.name = name
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def jwk(self):
        public = self.key.public_key().public_numbers()
        return dict(kty="RSA", use="sig", alg="RS256", kid=self.name, n=number(public.n), e=number(public.e))

    def token(self, principal, **claims):
        now = int(time.time())
        claims = dict(iss=ISSUER, aud=AUDIENCE, oid=principal, tid=TENANT, iat=now, nbf=now - 60, exp=now + 3600) | claims
        header = dict(typ="JWT", alg="RS256", kid=self.name)
        signed = ".".join(encode(json.dumps(part).encode()) for part in (header, claims))
        return f"{signed}.{encode(self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def key_set(*issuers):
    return json.dumps(dict(keys=[issuer.jwk() for issuer in issuers]))


def fresh_id():
    return str(uuid.uuid4())


class Bearer:
    """The credential object that clients ask for a token; counts how often they do."""

    def __init__(self, token):
        self.token, self.asked = token, []

    def get_token(self, *scopes, **more):
        self.asked.append((scopes, more))
        return AccessToken(self.token, int(time.time()) + 3600)


def certificate(directory):
    """A certificate for this machine, signed by itself: the paths of it and of its key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName(name) for name in ("localhost", "*.blob.localhost", "*.file.localhost")]
    names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "server.pem", directory / "server.key"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return paths


def configuration(directory, issuers, assignments, **more):
    """The server's configuration file: it trusts these issuers, and each of `assignments` (a dict) is one role."""
    keys = directory / "keys.json"
    keys.write_text(key_set(*issuers))
    settings = dict(issuers=[ISSUER], keys=str(keys)) | more
    lines = ["[tokens]"] + [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    for assignment in assignments:
        lines += ["", "[[tokens.assign]]"] + [f"{name} = {json.dumps(value)}" for name, value in assignment.items()]
    path = directory / "lazuli.toml"
    path.write_text("\n".join(lines) + "\n")
    return path
