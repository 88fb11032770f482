"""Make what a SuperLink with TLS and node authentication needs: a CA, a certificate, node keys.

    python make_certificates.py certificates --nodes 3 --host 127.0.0.1 --host server.example

leaves in the folder: ca.crt (for everybody), server.pem and server.key (for the SuperLink),
and node0.key and node0.pub and so on (a private key stays on its node, the public one is
registered with `flwr supernode register`). The CA's own key is thrown away: nothing else can be
signed with it, and a new server certificate means a new CA. For trying out and for tests; a site
with a CA of its own uses that one. Needs the `cryptography` package, which comes with Flower.
"""

import argparse
import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def make_certificates(
    folder: Path, nodes: int, hosts: tuple[str, ...] = ("127.0.0.1", "localhost"), days: int = 365
) -> Path:
    """Write CA, server certificate and node keys into a folder that holds none yet."""
    folder.mkdir(parents=True, exist_ok=True)
    ca_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    ca_name, server_name = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        for name in ("Unstale example CA", hosts[0])
    )
    ca = (
        _certificate(ca_name, ca_name, ca_key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), False)
        .sign(ca_key, hashes.SHA384())
    )
    server = (
        _certificate(server_name, ca_name, server_key.public_key(), days)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), False
        )
        .sign(ca_key, hashes.SHA384())
    )
    _write(folder / "ca.crt", ca.public_bytes(form.Encoding.PEM))
    _write(folder / "server.pem", server.public_bytes(form.Encoding.PEM))
    _write(folder / "server.key", _private(server_key, form.PrivateFormat.TraditionalOpenSSL), True)
    for number in range(nodes):
        key = ec.generate_private_key(ec.SECP384R1())
        public = key.public_key().public_bytes(
            form.Encoding.OpenSSH, form.PublicFormat.OpenSSH
        )  # the form that `ssh-keygen -t ecdsa -b 384` writes
        _write(folder / f"node{number}.key", _private(key, form.PrivateFormat.OpenSSH), True)
        _write(folder / f"node{number}.pub", public + b"\n")
    return folder


def _certificate(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(issuer, name, key, x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clocks differ
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False,
        key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private(key: ec.EllipticCurvePrivateKey, layout: form.PrivateFormat) -> bytes:
    return key.private_bytes(form.Encoding.PEM, layout, form.NoEncryption())


def _write(path: Path, content: bytes, private: bool = False) -> None:
    path.touch(mode=0o600 if private else 0o644, exist_ok=False)  # never over a key in use
    path.write_bytes(content)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=3, help="how many node keys (default: 3)")
    parser.add_argument("--host", action="append", help="name or address of the SuperLink")
    parser.add_argument("--days", type=int, default=365, help="how long it is valid")
    chosen = parser.parse_args()
    hosts = tuple(chosen.host or ("127.0.0.1", "localhost"))
    print(make_certificates(chosen.folder, chosen.nodes, hosts, chosen.days))


if __name__ == "__main__":
    main()
