"""Where settings come from, and what is said when one is wrong."""

from pathlib import Path

import pytest

from retain import InvalidInputError
from retain.settings import Settings, SettingsWithSources, environment_name, is_secret


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings file but those that a test writes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def own_file(tmp_path: Path) -> Path:
    folder = tmp_path / "config" / "retain"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "retain.toml"


def refused(**environment: str) -> str:
    with pytest.raises(InvalidInputError) as caught:
        SettingsWithSources.read(environment=environment)
    return str(caught.value)


def test_an_argument_wins_over_the_environment_which_wins_over_the_file(tmp_path: Path) -> None:  # C196
    own_file(tmp_path).write_text('port = 9003\nhost = "localhost"\ntimezone = "Europe/Berlin"\n')
    environment = {"RETAIN_PORT": "9002", "RETAIN_HOST": "::1"}
    read = SettingsWithSources.read({"port": 9001}, environment=environment)
    assert (read.settings.port, read.sources["port"]) == (9001, "argument")
    assert (read.settings.host, read.sources["host"]) == ("::1", "environment")
    assert (read.settings.timezone, read.sources["timezone"]) == ("Europe/Berlin", "file")
    assert (read.settings.offline, read.sources["offline"]) == (False, "default")


def test_settings_are_read_anew_each_time_not_frozen_at_import() -> None:  # C196
    ports = [SettingsWithSources.read(environment={"RETAIN_PORT": port}).settings.port for port in ("1", "2")]
    assert ports == [1, 2]


def test_an_argument_that_is_none_was_not_given() -> None:
    read = SettingsWithSources.read({"port": None}, environment={"RETAIN_PORT": "9002"})
    assert (read.settings.port, read.sources["port"]) == (9002, "environment")


def test_an_empty_variable_was_not_given() -> None:
    assert SettingsWithSources.read(environment={"RETAIN_PORT": ""}).sources["port"] == "default"


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [  # C195
        ("RETAIN_PORT", "abc", ("'abc'", "environment", "0 to 65535")),
        ("RETAIN_PORT", "-5", ("'-5'", "environment", "0 to 65535")),
        ("RETAIN_PORT", "99999999999", ("'99999999999'", "environment", "0 to 65535")),
        ("RETAIN_MAX_CONTENT_CHARS", "7", ("'7'", "100 to 1,000,000")),
        ("RETAIN_TIMEZONE", "Mars/Olympus", ("Mars/Olympus", "Europe/Berlin")),
        ("RETAIN_OFFLINE", "perhaps", ("'perhaps'", "boolean")),
        ("RETAIN_LOG_LEVEL", "loud", ("'loud'", "'debug'")),
        ("RETAIN_URL", "localhost:8000", ("http://",)),
    ],
)
def test_a_wrong_value_is_one_line_with_name_source_value_and_range(
    variable: str, value: str, says: tuple[str, ...]
) -> None:
    message = refused(**{variable: value})
    assert "\n" not in message
    for part in (variable, *says):
        assert part in message


def test_a_wrong_value_in_the_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("port = 70000\n")
    message = refused(RETAIN_CONFIG=str(file))
    assert str(file) in message
    assert "70000" in message


def test_a_misspelt_name_in_the_file_names_the_right_one(tmp_path: Path) -> None:
    own_file(tmp_path).write_text('databse_url = "x.db"\n')
    assert "did you mean database_url?" in refused()


def test_a_file_in_the_working_directory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("retain.toml").write_text('url = "http://attacker.example"\n')
    read = SettingsWithSources.read(environment={})
    assert (read.settings.url, read.file) == (None, None)


def test_a_wrong_secret_is_never_shown(tmp_path: Path) -> None:
    own_file(tmp_path).write_text("api_key = 987654321\n")
    assert "987654321" not in refused()


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    own_file(tmp_path).write_text("port: 9\n")
    assert "retain.toml" in refused()


def test_a_settings_file_that_is_named_must_exist() -> None:
    message = refused(RETAIN_CONFIG="missing.toml")
    assert "RETAIN_CONFIG" in message
    assert "missing.toml" in message


def test_the_file_given_as_an_argument_wins_over_the_variable(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("port = 1\n")
    (tmp_path / "b.toml").write_text("port = 2\n")
    read = SettingsWithSources.read(environment={"RETAIN_CONFIG": "a.toml"}, config_file="b.toml")
    assert read.settings.port == 2


def test_a_misspelt_variable_is_reported_with_the_name_it_resembles() -> None:
    environment = {"RETAIN_DATABSE_URL": "x", "RETAIN_CONFIG_DIRECTORY_OF_MINE": "y", "RETAIN_PORT": "1", "PATH": "z"}
    read = SettingsWithSources.read(environment=environment)
    assert read.unknown == {"RETAIN_CONFIG_DIRECTORY_OF_MINE": None, "RETAIN_DATABSE_URL": "RETAIN_DATABASE_URL"}


def test_lists_are_written_with_commas() -> None:
    read = SettingsWithSources.read(environment={"RETAIN_ALLOWED_HOSTS": "a.example, b.example,"})
    assert read.settings.allowed_hosts == ("a.example", "b.example")


def test_the_level_of_logs_may_be_written_in_capitals() -> None:
    assert SettingsWithSources.read(environment={"RETAIN_LOG_LEVEL": "INFO"}).settings.log_level == "info"


def test_every_setting_has_a_description_and_an_upper_case_variable() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description
        assert environment_name(name) == f"RETAIN_{name.upper()}"


def test_keys_are_secrets_and_nothing_else_is() -> None:
    assert {name for name in Settings.model_fields if is_secret(name)} == {"api_key", "embedding_api_key"}


def test_secrets_do_not_show_in_the_representation_of_settings() -> None:
    settings = SettingsWithSources.read(environment={"RETAIN_API_KEY": "rtn_hidden"}).settings
    assert "rtn_hidden" not in repr(settings)


def test_every_setting_stands_in_its_documentation() -> None:
    page = (Path(__file__).parent.parent / "docs" / "settings.md").read_text("utf-8")
    for name, field in Settings.model_fields.items():
        assert f"| `{name}` | `{environment_name(name)}` |" in page
        assert str(field.description) in page
