"""The address of the registry and its credentials: what the environment may say, and that secrets stay secret."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from streaminfer.bus.environment import SettingsError
from streaminfer.runtime.registry.settings import earlier_ids, settings_from

PREFIX = "STREAMINFER_SCHEMA_REGISTRY_"
URL = PREFIX + "URL"
LOCAL = {URL: "http://localhost:8080/apis/ccompat/v7/"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:8080/apis/ccompat/v7/", "http://localhost:8080/apis/ccompat/v7"),
        ("https://registry.example.org", "https://registry.example.org:443"),
        ("http://[::1]:81/x", "http://[::1]:81/x"),
    ],
)
def test_addresses(url: str, shown: str) -> None:
    settings = settings_from({URL: url})
    assert settings is not None
    assert settings.url == shown
    assert settings.authorization is None


def test_no_registry_is_configured() -> None:
    assert settings_from({}) is None
    assert settings_from({URL: ""}) is None


def test_a_password_from_the_environment_or_a_file_and_a_token_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    basic = "Basic " + base64.b64encode(b"ann:s3cret").decode()
    cases: list[tuple[dict[str, str], str]] = [
        ({PREFIX + "USERNAME": "ann", PREFIX + "PASSWORD": "s3cret"}, basic),
        ({PREFIX + "USERNAME": "ann", PREFIX + "PASSWORD_FILE": str(secret)}, basic),
        ({PREFIX + "TOKEN_FILE": str(secret)}, "Bearer s3cret"),
    ]
    for more, expected in cases:
        settings = settings_from({**LOCAL, **more})
        assert settings is not None
        assert settings.authorization == expected
        assert "s3cret" not in repr(settings)
        assert basic.split()[1] not in repr(settings)


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({URL: "http://ann:s3cret@host:1"}, "USERNAME"),
        ({URL: "http://host:1/?token=s3cret"}, "without"),
        ({URL: "http://ann:s3cret@host:port"}, "URL"),
        ({URL: "ftp://host/s3cret"}, "http://host:port/path"),
        ({URL: "host:8080"}, "http://host:port/path"),
        ({URL: "http://:80"}, "http://host:port/path"),
        ({URL: "http://host:0"}, "http://host:port/path"),
        ({URL: "http://host:1/a b"}, "characters"),
        ({URL: "http://host:1/a\r\nX: s3cret"}, "characters"),
        ({**LOCAL, PREFIX + "USERNAME": "ann"}, "PASSWORD"),
        ({**LOCAL, PREFIX + "PASSWORD": "s3cret"}, "USERNAME"),
        ({**LOCAL, PREFIX + "USERNAME": "a:b", PREFIX + "PASSWORD": "s3cret"}, "colon"),
        ({**LOCAL, PREFIX + "PASSWORD": "s3cret", PREFIX + "PASSWORD_FILE": "x"}, "both set"),
        ({**LOCAL, PREFIX + "TOKEN_FILE": "/nonexistent"}, "TOKEN_FILE"),
        ({**LOCAL, PREFIX + "CA_FILE": "/nonexistent"}, "CA_FILE"),
        ({**LOCAL, PREFIX + "CA_FILE": __file__}, "https"),
        ({PREFIX + "USERNAME": "ann"}, "URL"),
    ],
)
def test_what_cannot_work_is_refused_by_name_and_without_the_secret(environ: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named) as caught:
        settings_from(environ)
    assert "s3cret" not in str(caught.value)


def test_a_file_without_certificates_is_refused() -> None:
    settings = settings_from({URL: "https://host", PREFIX + "CA_FILE": __file__})
    assert settings is not None
    with pytest.raises(SettingsError, match="CA_FILE"):
        settings.tls()


def test_a_token_of_two_lines_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\ntwo")
    with pytest.raises(SettingsError, match="TOKEN_FILE"):
        settings_from({**LOCAL, PREFIX + "TOKEN_FILE": str(token)})


def test_ids_of_a_registry_that_is_gone() -> None:
    assert earlier_ids({}) == {}
    given = {"STREAMINFER_SCHEMA_IDS": "posterior=18, increments=17,posterior=22"}
    assert earlier_ids(given) == {"posterior": frozenset({18, 22}), "increments": frozenset({17})}
    for bad in (
        "posterior",
        "posterior=0",
        "posterior=-1",
        "events=3",
        "other=1",
        "posterior=2147483648",
        "posterior=x",
    ):
        with pytest.raises(SettingsError, match="STREAMINFER_SCHEMA_IDS"):
            earlier_ids({"STREAMINFER_SCHEMA_IDS": bad})
