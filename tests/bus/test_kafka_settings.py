"""The Kafka bus: its URL and what the environment says about getting in."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaminfer.bus.broker.settings import Address, parse_address, settings_from
from streaminfer.bus.connect import BusUrlError, open_bus
from streaminfer.bus.environment import SettingsError

SCRAM = {"STREAMINFER_KAFKA_SECURITY": "SASL_SSL", "STREAMINFER_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512"}
USER = {"STREAMINFER_KAFKA_USERNAME": "ann"}


@pytest.mark.parametrize(
    ("rest", "address"),
    [
        ("//localhost:9092", Address(("localhost:9092",))),
        ("//a:1,b.example-x.org:65535", Address(("a:1", "b.example-x.org:65535"))),
        ("//[::1]:9092/team.one", Address(("[::1]:9092",), "team.one")),
        ("//a:1/", Address(("a:1",))),
    ],
)
def test_addresses(rest: str, address: Address) -> None:
    assert parse_address(rest) == address


@pytest.mark.parametrize(
    "url",
    ["kafka:", "kafka:host:9092", "kafka://", "kafka://host", "kafka://host:0", "kafka://host:65536", "kafka://a:1,",
     "kafka://a:1/two words", "kafka://a:1/b/c"],
)  # fmt: skip
def test_bad_urls_are_refused_without_a_connection(url: str) -> None:
    with pytest.raises(BusUrlError, match="kafka"):
        open_bus(url)


def test_nothing_set_is_plain_text_and_the_brokers_replication() -> None:
    settings = settings_from({})
    assert settings.security == {"security_protocol": "PLAINTEXT"}
    assert settings.replication == -1
    assert settings_from({"STREAMINFER_KAFKA_REPLICATION": "3"}).replication == 3
    assert settings_from({}).compression == "lz4"
    assert settings_from({"STREAMINFER_KAFKA_COMPRESSION": "zstd"}).compression == "zstd"


def test_a_password_comes_from_the_environment_or_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cret\n")
    for more in ({"STREAMINFER_KAFKA_PASSWORD": "s3cret"}, {"STREAMINFER_KAFKA_PASSWORD_FILE": str(secret)}):
        settings = settings_from({**SCRAM, **USER, **more})
        assert settings.security == {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "ann",
            "sasl_plain_password": "s3cret",
        }
        assert "s3cret" not in repr(settings)


def test_certificates_and_their_password(tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("CA_FILE", "CERT_FILE", "KEY_FILE")}
    for path in paths.values():
        path.write_text("pem")
    environ = {f"STREAMINFER_KAFKA_{name}": str(path) for name, path in paths.items()}
    found = settings_from({"STREAMINFER_KAFKA_SECURITY": "SSL", "STREAMINFER_KAFKA_KEY_PASSWORD": "k", **environ})
    assert found.security == {
        "security_protocol": "SSL",
        "ssl_cafile": str(paths["CA_FILE"]),
        "ssl_certfile": str(paths["CERT_FILE"]),
        "ssl_keyfile": str(paths["KEY_FILE"]),
        "ssl_password": "k",
    }
    del environ["STREAMINFER_KAFKA_KEY_FILE"]
    with pytest.raises(SettingsError, match="KEY_FILE"):
        settings_from({"STREAMINFER_KAFKA_SECURITY": "SSL", **environ})


def test_a_token_is_read_again_every_time(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    environ = {"STREAMINFER_KAFKA_SECURITY": "SASL_SSL", "STREAMINFER_KAFKA_SASL_MECHANISM": "OAUTHBEARER"}
    provider = settings_from({**environ, "STREAMINFER_KAFKA_TOKEN_FILE": str(path)}).security[
        "sasl_oauth_token_provider"
    ]
    assert provider.token() == "one"
    path.write_text("two\n")
    assert provider.token() == "two"


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"STREAMINFER_KAFKA_SECURITY": "TLS"}, "SECURITY"),
        ({"STREAMINFER_KAFKA_SECURITY": "SASL_SSL"}, "SASL_MECHANISM"),
        (SCRAM, "USERNAME"),
        ({**SCRAM, **USER}, "PASSWORD"),
        ({**SCRAM, **USER, "STREAMINFER_KAFKA_PASSWORD": ""}, "PASSWORD"),
        ({**SCRAM, "STREAMINFER_KAFKA_USERNAME": "", "STREAMINFER_KAFKA_PASSWORD": "x"}, "USERNAME"),
        ({**SCRAM, **USER, "STREAMINFER_KAFKA_PASSWORD_FILE": "/nonexistent"}, "PASSWORD_FILE"),
        ({**SCRAM, **USER, "STREAMINFER_KAFKA_PASSWORD": "x", "STREAMINFER_KAFKA_PASSWORD_FILE": "y"}, "both set"),
        ({"STREAMINFER_KAFKA_SECURITY": "SSL", "STREAMINFER_KAFKA_CA_FILE": "/nonexistent"}, "CA_FILE"),
        ({"STREAMINFER_KAFKA_COMPRESSION": "rar"}, "COMPRESSION"),
        ({"STREAMINFER_KAFKA_REPLICATION": "0"}, "REPLICATION"),
        ({"STREAMINFER_KAFKA_REPLICATION": "two"}, "REPLICATION"),
    ],
)
def test_what_cannot_work_is_refused_by_name(environ: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        settings_from(environ)


@pytest.mark.parametrize("allowed", [None, "", "0", "yes"])
def test_a_log_in_without_tls_must_be_allowed(allowed: str | None) -> None:
    environ = {**SCRAM, **USER, "STREAMINFER_KAFKA_PASSWORD": "s3cret", "STREAMINFER_KAFKA_SECURITY": "SASL_PLAINTEXT"}
    more = {} if allowed is None else {"STREAMINFER_KAFKA_ALLOW_PLAINTEXT": allowed}
    with pytest.raises(SettingsError, match="without TLS: use SASL_SSL, or set STREAMINFER_KAFKA_ALLOW_PLAINTEXT=1"):
        settings_from({**environ, **more})
    found = settings_from({**environ, "STREAMINFER_KAFKA_ALLOW_PLAINTEXT": "1"})
    assert found.security["security_protocol"] == "SASL_PLAINTEXT"


def test_secrets_in_files_are_read_each_time(tmp_path: Path) -> None:
    file, key = tmp_path / "password", tmp_path / "key"
    for each in (file, key):
        each.write_text("first\n")
    environ = {**SCRAM, **USER, "STREAMINFER_KAFKA_PASSWORD_FILE": str(file)}
    environ |= {f"STREAMINFER_KAFKA_{name}_FILE": str(key) for name in ("CERT", "KEY", "KEY_PASSWORD")}
    found = settings_from(environ)
    for each in (file, key):
        each.write_text("second\n")
    assert found.login.password() == "second"
    assert found.security["ssl_password"]() == "second"
    assert settings_from({**SCRAM, **USER, "STREAMINFER_KAFKA_PASSWORD": "x"}).login.password() is None
