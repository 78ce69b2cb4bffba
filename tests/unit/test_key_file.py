"""The key file and the key of the settings."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path

import pytest

from holdfast import settings
from holdfast.errors import InvalidInput
from holdfast.key_file import KeyFile, read_ring, rotate
from holdfast.settings import SigningMode
from holdfast.signing import open_signer, read_keys

SECRET = "correct horse battery staple"


def test_a_rotation_adds_a_key_and_keeps_the_older_ones(tmp_path: Path):
    path = tmp_path / "keys"
    first, second, mail = rotate(path), rotate(path), rotate(path, queue="mail")
    ring = read_ring(path)
    assert [key.id for key in ring.keys] == [first.id, second.id, mail.id]
    assert ring.signing_key("default") == second
    assert ring.signing_key("mail") == mail
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660])
def test_a_file_that_others_can_use_is_refused(tmp_path: Path, mode: int):
    path = tmp_path / "keys"
    rotate(path)
    path.chmod(mode)
    with pytest.raises(InvalidInput, match="only its owner can use, got mode"):
        KeyFile(path)


@pytest.mark.parametrize("content", ["", "horse", '{"version": 2, "keys": []}', '{"version": 1, "keys": [{"a": 1}]}'])
def test_other_content_is_refused_and_not_shown(tmp_path: Path, content: str):
    path = tmp_path / "keys"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(InvalidInput) as refusal:
        KeyFile(path)
    assert "horse" not in str(refusal.value)


def test_changed_keys_are_read_again_and_a_lost_file_changes_nothing(tmp_path: Path):
    path = tmp_path / "keys"
    rotate(path)
    keys = KeyFile(path)
    new = rotate(path)
    assert keys.current().find(new.id) is None  # checked a moment ago
    assert keys.reload().find(new.id) == new
    path.unlink()
    assert keys.reload().find(new.id) == new


def test_the_key_of_the_settings_comes_before_the_key_file(tmp_path: Path):
    rotate(tmp_path / "keys")
    environ = {"HOLDFAST_SIGNING_KEY_FILE": str(tmp_path / "keys"), "JOBS_SIGNING_KEY": SECRET}
    accepted = settings.read(folder=tmp_path, environ=environ)
    assert accepted.origin("signing_key") == "JOBS_SIGNING_KEY"
    both = settings.read(folder=tmp_path, environ={**environ, "HOLDFAST_SIGNING_KEY": f"{SECRET} 2, {SECRET}"})
    assert both.origin("signing_key") == "HOLDFAST_SIGNING_KEY"
    rings = [read_keys(one) for one in (accepted, both)]
    [[old], [same, new]] = [[] if ring is None else ring.current().keys for ring in rings]
    assert (old.id, old.secret, new.secret) == (same.id, SECRET.encode(), f"{SECRET} 2".encode())
    file_only = settings.read(folder=tmp_path, environ={"HOLDFAST_SIGNING_KEY_FILE": str(tmp_path / "keys")})
    assert isinstance(read_keys(file_only), KeyFile)


def test_the_stricter_mode_counts(tmp_path: Path):
    accept = settings.read(folder=tmp_path, environ={"HOLDFAST_SIGNING": "accept", "HOLDFAST_SIGNING_KEY": SECRET})
    signers = [open_signer(accept, space="main", at_least=mode) for mode in SigningMode]
    assert [signer is not None and signer.required for signer in signers] == [False, False, True]


def test_the_key_is_in_no_repr_and_no_pickle_and_each_process_reads_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "holdfast.toml").write_text(f'signing = "required"\nsigning_key = "{SECRET}"\n')
    monkeypatch.chdir(tmp_path)
    known = settings.read()
    assert "horse" not in repr(known)
    assert b"horse" not in pickle.dumps(known)
    copy = pickle.loads(pickle.dumps(known))
    assert copy.signing is SigningMode.REQUIRED
    keys = read_keys(copy)
    assert keys is not None
    assert keys.current().keys[0].secret == SECRET.encode()


def test_an_error_of_the_settings_does_not_show_the_key(tmp_path: Path):
    (tmp_path / "holdfast.toml").write_text('signing_key = ["horse"]\n')
    with pytest.raises(InvalidInput) as refusal:
        settings.read(folder=tmp_path, environ={})
    assert "horse" not in str(refusal.value)


def test_a_relative_path_is_relative_to_the_settings_file(tmp_path: Path):
    (tmp_path / "holdfast.toml").write_text('signing_key_file = "keys"\n')
    assert settings.read(folder=tmp_path, environ={}).signing_key_file == str(tmp_path / "keys")


def test_a_pipe_is_refused_at_once(tmp_path: Path):
    os.mkfifo(tmp_path / "keys", 0o600)
    for use in (KeyFile, read_ring, rotate):
        with pytest.raises(InvalidInput, match="wanted a regular file"):
            use(tmp_path / "keys")
