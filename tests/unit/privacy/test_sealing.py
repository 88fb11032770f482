"""Encrypted files: what goes in comes out with the key, and nothing without it."""

import base64
import secrets
import sys

import pytest

import unstale as us
from unstale.errors import ConfigError
from unstale.privacy import sealing
from unstale.privacy.sealing import MARK, Seal

KEY = bytes(range(32))


@pytest.mark.parametrize("size", [0, 1, 16, 17, 100])
def test_content_of_any_length_comes_back(monkeypatch, size):
    monkeypatch.setattr(sealing, "_BLOCK", 16)
    content = secrets.token_bytes(size)
    sealed = Seal(KEY).close(content, "a")
    assert sealed.startswith(MARK)
    assert Seal(KEY).open(sealed, "a") == content
    if size >= 16:
        assert content[:16] not in sealed
    assert sealed != Seal(KEY).close(content, "a"), "the nonce is new each time"


def test_nothing_but_the_right_key_and_the_same_file_opens_it(monkeypatch):
    monkeypatch.setattr(sealing, "_BLOCK", 16)
    sealed = Seal(KEY).close(b"x" * 40, "a")
    one = 12 + 16 + 16
    body = sealed[len(MARK) :]
    flipped = bytearray(sealed)
    flipped[-1] ^= 1
    wrong = {
        "another name": (Seal(KEY), sealed, "b"),
        "another key": (Seal(bytes(32)), sealed, "a"),
        "a bit flipped": (Seal(KEY), bytes(flipped), "a"),
        "the last block cut off": (Seal(KEY), MARK + body[: 2 * one], "a"),
        "blocks in another order": (
            Seal(KEY), MARK + body[one : 2 * one] + body[:one] + body[2 * one :], "a",
        ),
        "no mark": (Seal(KEY), body, "a"),
        "nothing": (Seal(KEY), b"", "a"),
    }  # fmt: skip
    for seal, content, name in wrong.values():
        with pytest.raises(ConfigError, match="the key that it was encrypted with"):
            seal.open(content, name)


def test_a_key_is_read_from_where_it_is_named(monkeypatch, tmp_path):
    text = base64.b64encode(b"\xff" * 32).decode()
    monkeypatch.setenv("THE_KEY", text)
    path = tmp_path / "key"
    path.write_text(text.replace("/", "_") + "\n")  # the alphabet of Fernet.generate_key
    assert Seal.from_source("env:THE_KEY") == Seal.from_source(f"file:{path}") == Seal(b"\xff" * 32)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("THE_KEY", "env:NAME"),
        ("env:", "env:NAME"),
        ("env:NOT_THERE", "Found nothing there"),
        ("file:no/such/file", "cannot be read"),
        ("env:SHORT", "44 characters"),
        ("env:ODD", "44 characters"),
    ],
)
def test_no_key_is_a_clear_error_that_shows_no_key(monkeypatch, source, said):
    monkeypatch.setenv("SHORT", base64.b64encode(b"k" * 16).decode())
    monkeypatch.setenv("ODD", "my secret password!")
    with pytest.raises(ConfigError, match=said) as found:
        Seal.from_source(source)
    assert "secret" not in str(found.value)
    assert "kkk" not in repr(Seal(b"k" * 32))


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setenv("THE_KEY", base64.b64encode(KEY).decode())
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    with pytest.raises(ConfigError, match=r"pip install 'unstale\[privacy\]'"):
        Seal.from_source("env:THE_KEY")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"checkpoints": "encypted"}, "Did you mean 'encrypted'"),
        ({"checkpoints": "encrypted"}, "`key` should say where"),
        ({"key": "env:X"}, "encrypts nothing"),
    ],
)
def test_wrong_settings_of_storage(settings, said):
    with pytest.raises(ConfigError, match=said):
        us.Storage(**settings)


def test_only_encrypted_checkpoints_need_a_key():
    assert us.Storage().seal() is None
    assert us.Storage(checkpoints="without_memory").seal() is None
    with pytest.raises(ConfigError, match="Found nothing there"):
        us.Storage(checkpoints="encrypted", key="env:NOT_THERE").seal()
