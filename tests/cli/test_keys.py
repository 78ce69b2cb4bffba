"""``holdfast keys``, and jobs that ``holdfast enqueue`` signs."""

import stat

import pytest

from holdfast import Client, Holdfast, JobRequest, connect
from holdfast.cli.commands.dead_actions import REVIEWED_FIELDS
from holdfast.key_file import read_ring
from holdfast.wire.envelope import _Identity


@pytest.fixture
def keys(folder, monkeypatch):
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY_FILE", str(folder / "keys"))
    return folder / "keys"


def test_rotate_and_list_show_ids_and_dates_but_no_secret(run, keys):
    first = run("keys", "rotate", "--json").json
    second = run("keys", "rotate", "--queue", "mail")
    assert second.out.endswith("signs the queue mail from now on\n")
    listed = run("keys", "list", "--json").json["items"]
    assert listed[0] == first
    assert [key["queue"] for key in listed] == [None, "mail"]
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    table = run("keys", "list").out
    assert first["id"] in table
    secrets = [line.split('"')[3] for line in keys.read_text().splitlines() if '"secret"' in line]
    assert len(secrets) == 2
    assert not any(secret in table + second.out + second.err for secret in secrets)


def test_without_a_key_file_the_command_says_how_to_name_one(run):
    result = run("keys", "rotate", code=2)
    assert "set HOLDFAST_SIGNING_KEY_FILE" in result.err


def test_enqueue_signs(run, keys, url, monkeypatch):
    run("keys", "rotate")
    monkeypatch.setenv("HOLDFAST_SIGNING", "required")
    run("enqueue", "mail.send", "1")
    with connect(url) as store:
        [job] = store.find().items
    [key] = read_ring(keys).keys
    assert str(job.signature).startswith(f"{key.id}:v1.")


def test_doctor_does_not_show_the_key(run, url, monkeypatch):
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY", "correct horse battery staple")
    run("enqueue", "mail.send", "1")
    result = run("doctor", "--json")
    assert "horse" not in result.out + result.err
    assert {"name": "signing_key", "value": "***", "from": "HOLDFAST_SIGNING_KEY"} in result.json["settings"]


def test_dead_requeue_signs_what_it_has_shown(run, keys, url, monkeypatch):
    run("keys", "rotate")
    with connect(url) as store:
        Client(store).enqueue(JobRequest(type="mail.send", payload={"to": "ada"}, name="welcome"))
    monkeypatch.setenv("HOLDFAST_SIGNING", "required")
    app = Holdfast(url)
    app.handler("mail.send")(lambda payload: payload["to"])
    assert app.worker().process_once().status == "rejected"
    refused = run("dead", "requeue", "--reason", "bad signature", "--sign", stdin="n\n", code=1)
    assert 'payload={"to":"ada"} name=welcome max_attempts=25' in refused.out
    assert app.worker().process_once().status == "empty"
    done = run("dead", "requeue", "--reason", "bad signature", "--sign", "--yes")
    assert done.out.endswith("requeued 1 dead letter\n")
    assert app.worker().process_once().status == "acked"
    app.close()
    assert "no dead letter matches" in run("dead", "requeue", "--all", "--sign", "--yes").err


def test_a_review_shows_every_signed_field():
    signed = set(_Identity.__struct_fields__) - {"version", "space", "id", "type", "queue", "encoding", "key_id"}
    assert set(REVIEWED_FIELDS) == signed - {"max_retries"} | {"max_attempts"}


def test_dead_requeue_does_not_sign_without_a_key(run, url):
    run("enqueue", "mail.send", "1")
    assert "--sign needs a key" in run("dead", "requeue", "--all", "--sign", code=2).err
