"""``holdfast doctor`` and ``holdfast schema``."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import holdfast
from holdfast import Client, JobRequest
from holdfast.cli.doctor import store_checks
from holdfast.clock import DAY, HOUR, MINUTE, ManualClock, SystemClock
from holdfast.drivers.migrations import newest_version
from holdfast.drivers.requests import Configure, Scan, Write
from holdfast.drivers.sqlite import migrations
from holdfast.key_file import rotate
from holdfast.model import bounds
from holdfast.model.registry import Change
from holdfast.settings import NAMES


def health(result) -> dict[str, str]:
    return {check["name"]: check["health"] for check in result.json["checks"]}


def test_a_healthy_store_has_no_failed_check(run, filled):
    result = run("doctor", "--json")
    assert result.json["ok"] is True
    checks = health(result)
    assert {checks[name] for name in ("schema", "store", "driver", "durability", "clock", "disk", "jobs")} == {"ok"}
    assert checks["dead"] == "note"
    text = {check["name"]: check["text"] for check in result.json["checks"]}
    assert text["jobs"] == "2 ready, 1 scheduled, 1 inflight, 6 dead"
    assert "fsync" in text["durability"]
    assert "wrong" not in run("doctor").out
    assert filled.do(Scan(kind="doctor")) == []


def test_every_setting_is_shown_with_its_origin(run, filled, folder, monkeypatch):
    (folder / "holdfast.toml").write_text('url = "sqlite:///x.db"\nenvironment = "shop"\n', encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_SPAC", "typo")
    result = run("doctor", "--json", "--space", "main")
    origins = {one["name"]: one["from"] for one in result.json["settings"]}
    assert origins["url"] == "HOLDFAST_URL"
    assert origins["space"] == "--space"
    assert origins["environment"] == str(folder / "holdfast.toml")
    assert origins["max_attempts"] == "default"
    assert run("doctor", "--all").out.splitlines()[-1 - len(NAMES)].split() == ["SETTING", "VALUE", "FROM"]
    values = {one["name"]: one["value"] for one in result.json["settings"]}
    assert (values["keep_ended"], values["timeout"], values["environment"]) == ("7d", None, "shop")
    assert health(result)["environment"] == "note"
    assert "HOLDFAST_SPAC is not a setting" in run("doctor").out


def test_only_the_settings_that_someone_chose_are_shown(run, filled, folder):
    (folder / "holdfast.toml").write_text('environment = "shop"\n', encoding="utf-8")
    *_, title, first, second, rest = run("doctor").out.splitlines()
    assert title.split() == ["SETTING", "VALUE", "FROM"]
    assert [first.split()[0], second.split()[0]] == ["url", "environment"]
    assert rest == f"{len(NAMES) - 2} other settings have their defaults: --all shows them"
    assert "have their defaults" not in run("doctor", "--all").out


def test_without_any_setting_there_is_no_table_of_them(run):
    out = run("doctor", code=1).out
    assert "SETTING" not in out
    assert out.splitlines()[-1] == f"all {len(NAMES)} settings have their defaults: --all shows them"


def test_a_missing_store_is_wrong_and_is_not_created(run, url, folder):
    result = run("doctor", "--json", code=1)
    assert (result.json["ok"], health(result)) == (False, {"store": "wrong"})
    assert "no store at" in run("doctor", code=1).out
    assert list(folder.iterdir()) == []


def test_a_missing_url_is_wrong_and_the_settings_are_still_shown(run):
    result = run("doctor", "--json", code=1)
    assert health(result) == {"store": "wrong"}
    assert len(result.json["settings"]) == len(NAMES)


def test_a_password_is_never_shown(run, url):
    for secret_url in ("redis://me:s3cret@host/1", "sqlite://me:s3cret@host/1", "sqlite:///jobs.db?password=s3cret"):
        for command in (["doctor"], ["doctor", "--json"], ["job", "list"], ["enqueue", "t"], ["schema", "check"]):
            result = run(*command, "--url", secret_url, code=None)
            assert result.code != 0
            assert "s3cret" not in result.out + result.err


def test_a_file_that_is_not_a_database_is_wrong(run, url, folder):
    (folder / "jobs.db").write_bytes(b"not a database, but long enough to be read as one" * 40)
    assert health(run("doctor", "--json", code=1)) == {"store": "wrong"}
    assert "wanted a SQLite file" in run("job", "list", code=3).err


def test_a_store_clock_far_ahead_is_wrong(run, url):
    with holdfast.connect(url, clock=ManualClock(SystemClock().now() + HOUR)) as store:
        store.do(Write(changes=[Change(kind="k", key="k", value=b"", ttl=DAY)]))
    result = run("doctor", "--json", code=1)
    assert health(result)["clock"] == "wrong"
    assert "ahead of this host's" in {check["name"]: check["text"] for check in result.json["checks"]}["clock"]


def test_a_nearly_full_disk_is_wrong(run, url, store):
    result = run("doctor", "--json", "--url", f"{url}?min_free_bytes={1 << 62}", code=1)
    assert health(result)["disk"] == "wrong"
    refused = run("enqueue", "t", "--url", f"{url}?min_free_bytes={1 << 62}", code=3)
    assert "new jobs are refused" in refused.err


def test_less_durable_stores_and_paused_queues_get_a_note(run, url, filled):
    filled.do(Configure(queue="mail", settings=holdfast.QueueSettings(paused_until=bounds.MAX_INSTANT)))
    checks = health(run("doctor", "--json", "--url", f"{url}?synchronous=NORMAL"))
    assert (checks["durability"], checks["paused"]) == ("note", "note")


def test_a_store_in_memory_has_no_schema_and_no_disk_check(run):
    checks = health(run("doctor", "--json", "--url", "memory://"))
    assert "schema" not in checks
    assert "disk" not in checks
    assert checks["durability"] == "note"


# work -------------------------------------------------------------------------------------------------------


def checks_of(result) -> dict[str, tuple[str, str, str]]:
    return {one["name"]: (one["health"], one["text"], one["advice"] or "") for one in result.json["checks"]}


def test_ready_jobs_without_any_worker_get_a_note(run, store):
    assert checks_of(run("doctor", "--json"))["workers"] == ("ok", "none runs in this space", "")
    Client(store).enqueue(JobRequest(type="t"))
    health_, text, advice = checks_of(run("doctor", "--json"))["workers"]
    assert (health_, text) == ("note", "none runs in this space")
    assert advice == "start one with `holdfast work MODULE:APP`"
    assert "none runs in this space: start one with" in run("doctor").out


def test_queues_and_types_that_no_worker_takes_get_a_note(run, store, attend):
    requests = [
        JobRequest(type=type_, queue=queue) for queue in ("mail", "reports") for type_ in ("mail.send", "other")
    ]
    Client(store).enqueue(requests)
    attend("a")
    checks = checks_of(run("doctor", "--json"))
    assert checks["workers"][:2] == ("ok", "1 run, and hold 0 jobs")
    assert checks["queues"][:2] == ("note", "queues with ready jobs that no worker works: reports")
    assert "--queue NAME" in checks["queues"][2]
    assert checks["types"][:2] == ("note", "types with ready jobs that no worker handles: other in mail")
    attend("b", queue="reports", type="other")
    attend("c", queue="mail", type="other")
    checks = checks_of(run("doctor", "--json"))
    assert "queues" not in checks
    assert checks["types"][1] == "types with ready jobs that no worker handles: mail.send in reports"


def test_workers_of_different_versions_get_a_note(run, attend, monkeypatch):
    attend("a")
    assert "versions" not in checks_of(run("doctor", "--json"))
    monkeypatch.setattr(holdfast, "__version__", "0.0.1")
    attend("b")
    health_, text, advice = checks_of(run("doctor", "--json"))["versions"]
    assert health_ == "note"
    assert text.startswith("workers of different versions: 0.0.1, ")
    assert "holdfast worker list" in advice


def test_old_ready_jobs_and_leases_that_nobody_reaps_get_a_note(run, url):
    clock = ManualClock(SystemClock().now() - HOUR)
    with holdfast.connect(url, clock=clock) as store:
        Client(store, clock=clock).enqueue([JobRequest(type="t"), JobRequest(type="t")])
        assert len(store.reserve(["default"], limit=1, lease_for=MINUTE)) == 1
    checks = checks_of(run("doctor", "--json"))
    assert checks["oldest"][0] == "note"
    assert checks["oldest"][1].startswith("the oldest ready job, a t in default, is due for 1h")
    assert checks["leases"][:2] == ("note", "1 leases expired more than 1m ago")
    assert "holdfast reap" in checks["leases"][2]
    run("reap")
    assert "leases" not in checks_of(run("doctor", "--json"))


def test_the_sizes_of_tables_are_shown(run, filled, monkeypatch):
    health_, text, _ = checks_of(run("doctor", "--json"))["sizes"]
    assert (health_, text.startswith("used pages 0.")) == ("ok", True)
    monkeypatch.setattr(store_checks, "LARGE_TABLE_BYTES", 1)
    health_, _, advice = checks_of(run("doctor", "--json"))["sizes"]
    assert health_ == "note"
    assert "holdfast retention" in advice


def test_every_note_says_what_to_do_next(run, url, filled, monkeypatch):
    monkeypatch.setenv("HOLDFAST_SPAC", "typo")
    filled.do(Configure(queue="mail", settings=holdfast.QueueSettings(paused_until=bounds.MAX_INSTANT)))
    checks = checks_of(run("doctor", "--json", "--url", f"{url}?synchronous=NORMAL"))
    notes = {name: advice for name, (health_, _, advice) in checks.items() if health_ != "ok" and name != "gap"}
    assert {"environment", "durability", "dead", "paused"} <= notes.keys()
    assert "" not in notes.values()


# schema -----------------------------------------------------------------------------------------------------


def test_install_check_and_upgrade_report_the_schema_version(run, url, folder):
    assert "no tables: run `holdfast schema install`" in run("schema", "check", code=1).err
    assert "to upgrade" in run("schema", "upgrade", code=4).err
    assert list(folder.iterdir()) == []
    newest = newest_version(migrations.load())
    assert run("schema", "install").out == f"version {newest}, new\n"
    assert run("schema", "install").out == f"version {newest} already, nothing to do\n"
    assert run("schema", "upgrade").out == f"version {newest} already, nothing to do\n"
    assert run("schema", "check").out == f"version {newest}, up to date\n"
    assert run("schema", "check", "--json").json == {"applied": newest, "newest": newest, "current": True}


def test_a_newer_store_is_refused(run, url, folder, store):
    with closing(sqlite3.connect(folder / "jobs.db")) as connection, connection:
        connection.execute("INSERT INTO holdfast_migrations VALUES (99, 'later', 'x', 0)")
    for command in (["schema", "check"], ["schema", "upgrade"], ["job", "list"]):
        assert "a newer Holdfast created it" in run(*command, code=3).err


def test_the_printed_statements_create_the_tables(run, url):
    script = run("schema", "sql").out
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert {"holdfast_jobs", "holdfast_ledger"} <= tables


def test_schema_commands_refuse_a_driver_without_tables(run):
    for command in ("install", "upgrade", "check", "sql"):
        assert "it has no tables" in run("schema", command, "--url", "memory://", code=1).err


def test_the_password_of_the_listen_url_is_masked(run):
    nested = "postgresql%3A%2F%2Fme%3As3cret%40127.0.0.1%3A1%2Fdb"
    url = f"postgresql://me:s3cret@127.0.0.1:1/db?listen={nested}&patience=0"
    for arguments in ((), ("--json",)):
        shown = run("doctor", "--url", url, *arguments, code=1)
        assert "s3cret" not in shown.out + shown.err


def test_rows_of_a_clock_that_was_far_ahead_are_reported_and_repaired(run, url):
    now = SystemClock().now()
    with holdfast.connect(url, clock=ManualClock(now + 365 * DAY)) as store:
        Client(store).enqueue(JobRequest(type="t"))
        assert len(store.reserve(["default"], limit=1, lease_for=MINUTE)) == 1
    shown = run("doctor", "--json", code=1).json
    [check] = [check for check in shown["checks"] if check["name"] == "future"]
    assert "1 leases, jobs and rates were recorded while the clock was far ahead" in check["text"]
    repaired = run("doctor", "--repair-clock", "--json")
    assert "moved 1 rows" in repaired.err
    assert "future" not in [check["name"] for check in repaired.json["checks"]]


def test_a_store_that_does_not_record_the_clock_refuses_the_repair(run):
    assert "only a SQLite store" in run("doctor", "--url", "memory://", "--repair-clock", code=2).err


def test_rows_that_cannot_be_read_are_counted_and_named(run, store, folder):
    sent = Client(store).enqueue([JobRequest(type="t", payload=n, queue="mail") for n in range(3)])
    with closing(sqlite3.connect(store.engine.path)) as connection, connection:
        connection.execute("UPDATE holdfast_jobs SET meta = x'fffe' WHERE id = ?", [sent[1].id])
        connection.execute("UPDATE holdfast_jobs SET type = cast(x'61ff' as text) WHERE id = ?", [sent[2].id])
    assert len(store.reserve(["mail"], limit=9, lease_for=HOUR)) == 1
    result = run("doctor", "--json", code=1)
    checks = {check["name"]: check for check in result.json["checks"]}
    assert checks["unreadable"]["health"] == checks["names"]["health"] == "wrong"
    assert f"1 dead letters have rows that cannot be read, for example {sent[1].id}" == checks["unreadable"]["text"]
    assert "in mail" in checks["names"]["text"]
    assert "meta: wanted a JSON object" in run("dead", "show", sent[1].id).out
    assert sent[1].id in run("dead", "list").out
    assert "cannot be read" in run("dead", "requeue", sent[1].id, "--yes", code=1).err
    assert "dead, unreadable" in run("job", "retry", sent[1].id, code=1).out
    run("dead", "purge", "--reason", "unreadable", "--yes")
    run("job", "cancel", sent[2].id)
    assert run("doctor").code == 0


def test_payloads_without_a_job_are_reported(run, url):
    with holdfast.connect(url) as store:
        Client(store).enqueue(JobRequest(type="t", payload="x" * 100_000))
        assert "payloads" not in [check["name"] for check in run("doctor", "--json").json["checks"]]
        with closing(sqlite3.connect(store.engine.path, isolation_level=None)) as connection:
            connection.execute("DELETE FROM holdfast_jobs")
    [check] = [check for check in run("doctor", "--json").json["checks"] if check["name"] == "payloads"]
    assert check["text"].startswith("1 large payloads have no job")


def test_signing_without_a_usable_key_is_wrong(run, filled, folder, monkeypatch):
    """A key of another queue cannot sign, and neither can a file that others can read."""
    key_file = folder / "keys"
    assert "signing" not in health(run("doctor", "--json"))
    monkeypatch.setenv("HOLDFAST_SIGNING", "required")
    for variables in ({}, {"HOLDFAST_SIGNING_KEY": ","}, {"HOLDFAST_SIGNING_KEY_FILE": str(key_file)}):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        result = run("doctor", "--json", code=1)
        assert health(result)["signing"] == "wrong"
        for name in variables:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY_FILE", str(key_file))
    rotate(key_file, queue="mail")
    assert health(run("doctor", "--json", code=1))["signing"] == "wrong"
    rotate(key_file)
    assert health(run("doctor", "--json"))["signing"] == "ok"
    key_file.chmod(0o644)
    assert health(run("doctor", "--json", code=1))["signing"] == "wrong"
