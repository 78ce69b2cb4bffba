"""Settings: file, then environment, then arguments; each value knows where it came from."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Holdfast, WorkerOptions
from holdfast.clock import MINUTE, SECOND
from holdfast.errors import InvalidInput
from holdfast.model.limit_proposal import LimitProposal, QueueLimits
from holdfast.model.queue_order import QueueOrder
from holdfast.model.queue_settings import Gaps, LimitOrigin, OnExhausted
from holdfast.model.retry import Fixed, NoDelay
from holdfast.settings import NAMES, QueueTable, Settings, mask_secrets, read, unknown_variables
from holdfast.settings.fields import REMOVED
from holdfast.worker.breaker import BreakerRule


def test_without_anything_there_are_defaults(tmp_path):
    settings = read(folder=tmp_path, environ={})
    assert settings == Settings()
    assert {settings.origin(name) for name in NAMES} == {"default"}


def test_the_last_word_wins(tmp_path):
    file = tmp_path / "holdfast.toml"
    file.write_text('url = "memory://file"\nspace = "file"\napp = "file:app"\nkeep_ended = "2d"\n', encoding="utf-8")
    environ = {"HOLDFAST_URL": "memory://variable", "HOLDFAST_SPACE": "variable", "HOLDFAST_MAX_ATTEMPTS": "3"}
    settings = read({"url": "memory://argument"}, folder=tmp_path, environ=environ)
    assert (settings.url, settings.space, settings.app) == ("memory://argument", "variable", "file:app")
    assert (settings.max_attempts, settings.keep_ended) == (3, timedelta(days=2))
    origins = [settings.origin(name) for name in ("url", "space", "app", "max_attempts", "timeout")]
    assert origins == ["--url", "HOLDFAST_SPACE", str(file), "HOLDFAST_MAX_ATTEMPTS", "default"]


def test_the_nearest_file_upwards_is_the_one(tmp_path):
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "holdfast.toml").write_text('space = "far"\n', encoding="utf-8")
    assert read(folder=deep, environ={}).space == "far"
    (tmp_path / "a" / "holdfast.toml").write_text('space = "near"\n', encoding="utf-8")
    assert read(folder=deep, environ={}).space == "near"
    other = tmp_path / "other.toml"
    other.write_text('space = "other"\n', encoding="utf-8")
    assert read(folder=deep, environ={"HOLDFAST_CONFIG": str(other)}).space == "other"
    assert read(file=other, folder=deep, environ={"HOLDFAST_CONFIG": "nowhere"}).space == "other"


def test_a_relative_sqlite_path_is_relative_to_its_file(tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    file = folder / "holdfast.toml"
    file.write_text('url = "sqlite:///data/jobs.db?synchronous=NORMAL"\n', encoding="utf-8")
    wanted = f"sqlite:///{str(folder).replace(' ', '%20')}/data/jobs.db?synchronous=NORMAL"
    assert read(file=file, environ={}).url == wanted
    for url in ("sqlite:////var/jobs.db", "memory://x", "redis://h/0", "sqlite://"):
        file.write_text(f'url = "{url}"\n', encoding="utf-8")
        assert read(file=file, environ={}).url == url
    assert read({"url": "sqlite:///jobs.db"}, file=file, environ={}).url == "sqlite:///jobs.db"


def test_an_empty_variable_is_none(tmp_path):
    assert (
        read(folder=tmp_path, environ={"HOLDFAST_URL": "", "HOLDFAST_TIMEOUT": "", "HOLDFAST_CONFIG": ""}) == Settings()
    )


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"HOLDFAST_MAX_ATTEMPTS": "many"}, "HOLDFAST_MAX_ATTEMPTS: wanted a whole number from 1"),
        ({"HOLDFAST_MAX_ATTEMPTS": "0"}, "HOLDFAST_MAX_ATTEMPTS: wanted a whole number from 1"),
        ({"HOLDFAST_TIMEOUT": "5"}, "HOLDFAST_TIMEOUT: wanted a length such as"),
        ({"HOLDFAST_TIMEOUT": "0s"}, "HOLDFAST_TIMEOUT: wanted at least 1us, got 0s"),
        ({"HOLDFAST_KEEP_ENDED": "1h"}, "HOLDFAST_KEEP_ENDED: wanted at least 1d, got 1h"),
        ({"HOLDFAST_SPACE": "a b"}, "HOLDFAST_SPACE: wanted 1 to 128"),
        (
            {"HOLDFAST_CONFIG": "nowhere.toml"},
            "nowhere.toml: wanted a settings file that can be read, got No such file",
        ),
    ],
)
def test_a_wrong_variable_is_named(tmp_path, environ, message):
    with pytest.raises(InvalidInput, match="wanted") as caught:
        read(folder=tmp_path, environ=environ)
    assert message in str(caught.value)


LISTS = {
    "allowed_shell_commands": (["/usr/bin/rsync", "/bin/ls"], ["rsync", "/bin/../bin/ls", "./x"]),
    "allowed_urls": (["https://example.org/hooks", "http://*"], ["example.org", "https://user@example.org"]),
    "allowed_networks": (["10.1.0.0/16", "fd12::/48"], ["10.0.0.1/8", "everything"]),
    "allowed_events": (["user.created", "paid"], ["two words"]),
    "allowed_commands": (["reindex"], [""]),
}


@pytest.mark.parametrize("name", LISTS)
def test_an_allowlist_is_an_array_in_the_file_and_has_commas_in_a_variable(tmp_path, name):
    good, bad = LISTS[name]
    file = tmp_path / "holdfast.toml"
    file.write_text(f"{name} = {good}\n", encoding="utf-8")
    assert getattr(read(file=file, environ={}), name) == tuple(good)
    variable = f"HOLDFAST_{name.upper()}"
    assert getattr(read(folder=tmp_path, environ={variable: " , ".join(good)}), name) == tuple(good)
    assert getattr(Settings(), name) == ()
    for entry in bad:
        file.write_text(f"{name} = {[entry]}\n", encoding="utf-8")
        with pytest.raises(InvalidInput, match=f"{name} in "):
            read(file=file, environ={})
    for value in ('"text"', "[1]"):
        file.write_text(f"{name} = {value}\n", encoding="utf-8")
        with pytest.raises(InvalidInput, match="texts"):
            read(file=file, environ={})


def test_an_empty_url_and_a_file_that_is_not_utf_8(tmp_path):
    file = tmp_path / "holdfast.toml"
    file.write_text('url = " "\n', encoding="utf-8")
    with pytest.raises(InvalidInput, match="wanted a store URL"):
        read(file=file, environ={})
    file.write_bytes(b'space = "\xff"\n')
    with pytest.raises(InvalidInput, match="wanted TOML in UTF-8"):
        read(file=file, environ={})


def test_variables_that_are_no_settings():
    assert unknown_variables({"HOLDFAST_URL": "", "HOLDFAST_CONFIG": "", "HOLDFAST_URI": "", "OTHER": ""}) == [
        "HOLDFAST_URI"
    ]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///jobs.db", "sqlite:///jobs.db"),
        ("memory://", "memory://"),
        ("postgresql://me:s3cret@host:5432/db?sslmode=require", "postgresql://me:***@host:5432/db?sslmode=require"),
        ("redis://:s3cret@host/0", "redis://:***@host/0"),
        ("redis://me@host/0", "redis://me@host/0"),
        ("postgresql://a:p@ss@host/db", "postgresql://a:***@host/db"),
        ("sb://h/?SharedAccessKey=abc&x=1&token=t", "sb://h/?SharedAccessKey=***&x=1&token=***"),
        ("http://[bad", "***"),
        ("postgresql://me:s3/cret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:s3?cr#et@host/db?sslmode=require", "postgresql://me:***@host/db?sslmode=require"),
        (
            "postgresql://me:p@h/db?listen=postgresql%3A%2F%2Fme%3As3cret%40direct",
            "postgresql://me:***@h/db?listen=***",
        ),
        ("postgresql://h/db?listen=off&patience=2s", "postgresql://h/db?listen=off&patience=2s"),
        ("postgresql://h/db?pass%77ord=s3cret&connections=4", "postgresql://h/db?pass%77ord=***&connections=4"),
        ("postgresql://me/s3cret@host/db", "postgresql://***@host/db"),
        ("host=h user=me password=s3cret", "***"),
        ("postgresql:/me:s3cret@host/db", "***"),
    ],
)
def test_secrets_of_a_url_are_hidden(url, shown):
    assert mask_secrets(url) == shown


SECRET = "s3cr3tS3CR3T"
PIECES = st.text(alphabet="aZ0/?#@:%[]\\ +;=&\u202e", max_size=6)


@given(
    scheme=st.sampled_from(["postgresql://", "redis://", "POSTGRES://", "postgresql:/", "postgresql:", "sb://", ""]),
    user=st.sampled_from(["", "me", "a b", "me/x", "me%40corp"]),
    before=PIECES,
    after=PIECES,
    rest=st.sampled_from(["", "/", "/db", "/db?sslmode=require", "/db?listen=off", ":5432/db?a=b@c", "/db#x"]),
)
def test_no_password_of_a_malformed_url_survives(scheme, user, before, after, rest):
    """Some text that is not a URL at all is shown as it is; a text with a colon and an at sign is not."""
    assert SECRET not in mask_secrets(f"{scheme}{user}:{before}{SECRET}{after}@host{rest}")


@given(
    head=st.sampled_from(["postgresql://h/db?", "postgresql://me:x@h/db?a=b&", "sb://h/?", "host=h "]),
    name=st.sampled_from(["password", "PGPASSWORD", "token", "api_key", "pass%77ord", "SharedAccessKey", "sslkey"]),
    before=PIECES.map(lambda text: text.replace("&", "").replace(";", "")),
    after=PIECES.map(lambda text: text.replace("&", "").replace(";", "")),
)
def test_no_secret_option_of_a_url_survives(head, name, before, after):
    assert SECRET not in mask_secrets(f"{head}{name}={before}{SECRET}{after}")


@given(password=st.text(min_size=1, max_size=9))
def test_the_password_of_a_nested_url_does_not_survive(password):
    nested = quote(f"postgresql://me:{SECRET}{password}@h/db", safe="")
    assert SECRET not in mask_secrets(f"postgresql://me@h/db?listen={nested}")
    assert SECRET not in mask_secrets(f"postgresql://me@h/db?listen={quote(nested, safe='')}")


# Named stores -----------------------------------------------------------------------------------------------


def test_a_store_is_named_in_the_file_and_its_url_may_be_a_variable(tmp_path):
    text = '[stores.prod]\nspace = "shop"\n[stores.test_1]\nurl = "sqlite:///test.db"\n'
    (tmp_path / "holdfast.toml").write_text(text, encoding="utf-8")
    environ = {"HOLDFAST_STORES_PROD_URL": "postgresql://me:s3cret@h/db", "HOLDFAST_URL": "store:prod"}
    settings = read(folder=tmp_path, environ=environ)
    assert (settings.url, settings.resolve_url("store:prod")) == ("store:prod", "postgresql://me:s3cret@h/db")
    assert settings.resolve_url("store:test_1") == f"sqlite:///{tmp_path}/test.db"
    assert settings.resolve_url("memory://") == "memory://"
    assert [settings.space_of(url) for url in ("store:prod", "store:test_1", "memory://")] == ["shop", "main", "main"]
    assert settings.origin("stores.prod.url") == "HOLDFAST_STORES_PROD_URL"
    assert "s3cret" not in repr(settings)
    assert unknown_variables({**environ, "HOLDFAST_STORES_PROD_UR": ""}) == ["HOLDFAST_STORES_PROD_UR"]


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_setting_is_an_error_that_says_what_to_do(tmp_path, name):
    with pytest.raises(InvalidInput, match=f"^HOLDFAST_{name.upper()}: wanted .*, got a setting that was removed$"):
        read(folder=tmp_path, environ={f"HOLDFAST_{name.upper()}": "1"})
    (tmp_path / "holdfast.toml").write_text(f"{name} = 1\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=f"^{name} in .*holdfast.toml: wanted .*, got a setting that was removed$"):
        read(folder=tmp_path, environ={})


def test_a_space_that_is_given_as_an_argument_is_used_for_a_named_store_with_a_space(tmp_path):
    text = 'space = "b"\n[stores.a]\nurl = "memory://a"\nspace = "a"\n'
    (tmp_path / "holdfast.toml").write_text(text, encoding="utf-8")
    assert read(folder=tmp_path, environ={"HOLDFAST_SPACE": "d"}).space_of("store:a") == "a"
    assert read({"space": "c"}, folder=tmp_path, environ={}).space_of("store:a") == "c"


@pytest.mark.parametrize(
    ("text", "environ", "message"),
    [
        ("[stores.prod]\nspace = 's'", {}, "stores.prod: wanted a url, or HOLDFAST_STORES_PROD_URL, got none"),
        ("[stores.prod]\nurl = 'store:test'", {}, "wanted a store URL such as sqlite:///jobs.db, got the name"),
        ("[stores.Prod]\nurl = 'memory://'", {}, "wanted a name of small letters, digits and underscores, got Prod"),
        ("[stores.prod]\nuri = 'memory://'", {}, "wanted a table with url and space, got the key uri"),
        ("[stores.prod]\nurl = 5", {}, "wanted text, got a int"),
        ("stores = 'memory://me:s3cret@h'", {}, "wanted a table with url and space, got no table"),
    ],
)
def test_a_wrong_store_is_named(tmp_path, text, environ, message):
    (tmp_path / "holdfast.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match="wanted") as caught:
        read(folder=tmp_path, environ=environ)
    assert message in str(caught.value)


def test_an_unknown_store_is_an_error_that_says_where_it_is_looked_for(tmp_path):
    with pytest.raises(InvalidInput, match=r"store prod: wanted url in \[stores.prod\] of holdfast.toml, or"):
        read(folder=tmp_path, environ={}).resolve_url("store:prod")


def test_a_collector_of_metrics_is_a_path_to_an_object(tmp_path):
    (tmp_path / "holdfast.toml").write_text('metrics = "my.module:collector"\n', encoding="utf-8")
    assert read(folder=tmp_path, environ={}).metrics == "my.module:collector"
    with pytest.raises(InvalidInput, match=r"HOLDFAST_METRICS.*module:object.*127\.0\.0\.1:9000"):
        read(folder=tmp_path, environ={"HOLDFAST_METRICS": "127.0.0.1:9000"})


def test_a_worker_gets_its_lease_retry_policy_and_breaker_from_the_settings(tmp_path):
    environ = {
        "HOLDFAST_LEASE": "30s",
        "HOLDFAST_RETRY": "fixed(5s)",
        "HOLDFAST_BREAKER_THRESHOLD": "5",
        "HOLDFAST_BREAKER_COOLDOWN": "2m",
    }
    app = Holdfast("memory://")
    app.use_settings(read(folder=tmp_path, environ=environ))
    options = app.worker_options(WorkerOptions())
    assert (options.lease_for, options.retry_policy) == (30 * SECOND, Fixed(timedelta(seconds=5)))
    assert options.breaker == BreakerRule(threshold=5, cooldown=timedelta(minutes=2))
    options = app.worker_options(WorkerOptions(lease=timedelta(seconds=1), retry=NoDelay()))
    assert (options.lease_for, options.retry_policy) == (SECOND, NoDelay())


def test_tables_of_queues_have_an_order(tmp_path):
    file = tmp_path / "holdfast.toml"
    file.write_text(
        '[queues.accounts]\ngaps = "wait"\ngap_report_after = "5m"\non_exhausted = "halt"', encoding="utf-8"
    )
    settings = read(file=file, environ={})
    wanted = QueueOrder(gaps=Gaps.WAIT, gap_report_after=5 * MINUTE, on_exhausted=OnExhausted.HALT)
    assert settings.queue_orders == {"accounts": wanted}
    assert settings.queue_limits == ()


def test_tables_of_queues_propose_limits(tmp_path):
    file = tmp_path / "holdfast.toml"
    file.write_text(
        """
        [queues.mail]
        rate = "600/m"
        max_inflight = 50
        key_rate = "10/s"
        key_burst = 3
        key_max_inflight = 2

        [queues.mail.types."mail.send"]
        rate = 2.5
        burst = 4
        """,
        encoding="utf-8",
    )
    settings = read(file=file, environ={})
    of_keys = {"key_rate": 10.0, "key_burst": 3, "key_max_inflight": 2}
    of_queue, of_type = QueueLimits(rate=10.0, max_inflight=50, **of_keys), QueueLimits(rate=2.5, burst=4)
    assert settings.queues == {"mail": QueueTable(limits=of_queue, types={"mail.send": of_type})}
    assert settings.queue_limits == (
        LimitProposal(queue="mail", type=None, limits=of_queue, origin=LimitOrigin.SETTINGS),
        LimitProposal(queue="mail", type="mail.send", limits=of_type, origin=LimitOrigin.SETTINGS),
    )
    assert settings.origin("queues.mail") == str(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[queues.mail]\ngaps = "skip"', "gaps of queues.mail in .*: wanted pass or wait, got skip"),
        ("[queues.mail]\ngap_pass_after = 5", "gap_pass_after of queues.mail in .*: wanted a length such as"),
        ("queues = 3", "queues.NAME in .*: wanted a table"),
        ("queues.mail = 3", "queues.NAME in .*: wanted a table"),
        ("[queues.mail]\nspeed = 3", "queues.mail in .*: wanted max_inflight, rate, burst, .*, got the key speed"),
        (
            "[queues.mail.types.a]\nkey_rate = 2",
            "types.a in .*: wanted max_inflight, rate, burst, got the key key_rate",
        ),
        ('[queues.mail]\nkey_rate = "fast"', "key_rate of queues.mail in .*: wanted a rate such as"),
        ('[queues.mail]\nrate = "fast"', "rate of queues.mail in .*: wanted a rate such as"),
        ("[queues.mail]\nmax_inflight = 0", "max_inflight of queues.mail in .*: wanted a whole number from 1"),
        ("[queues.mail.types.a]\nburst = 2", "burst of queues.mail.types.a in .*: wanted a rate beside it"),
        ('retry = "often"', "retry in .*: wanted"),
    ],
)
def test_a_wrong_table_of_a_queue_is_named(tmp_path, text, message):
    file = tmp_path / "holdfast.toml"
    file.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=message):
        read(file=file, environ={})


@pytest.mark.parametrize(
    "line",
    [
        'url = ["postgresql://me:s3cret@host/db"]',
        'webhooks = "whsec_s3cret"',
        'serve = ["s3cret"]',
        'stores = "postgresql://me:s3cret@host/db"',
        'stores.prod = "postgresql://me:s3cret@host/db"',
        'queues = "s3cret"',
        'schedules = ["s3cret"]',
        'token = ["s3cret"]',
    ],
)
def test_a_secret_of_the_wrong_type_is_not_shown(tmp_path, line):
    (tmp_path / "holdfast.toml").write_text(line)
    with pytest.raises(InvalidInput) as caught:
        read(folder=tmp_path, environ={})
    assert "s3cret" not in str(caught.value)


def test_no_url_is_in_the_repr():
    assert "s3cret" not in repr(Settings(url="postgresql://me:s3cret@host/db"))
