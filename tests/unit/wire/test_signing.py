"""Signatures: what they cover, which key signs, and what a wrong one is."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.model.secret import Secret
from holdfast.wire.signing import KeyRing, Signer, SigningKey, Verdict
from tests.signed_envelopes import JOB, KEY, SIGNED, SIGNER, corrupt_envelopes

SECRET = KEY.secret
CORRUPTIONS = 3_000

OTHER: dict[str, Any] = {
    "id": "j2",
    "type": "mail.other",
    "queue": "other",
    "payload": JOB.payload + b" ",
    "priority": 1,
    "timeout": None,
    "created_at": JOB.created_at + 1,
    "max_attempts": 24,
    "idempotency_key": None,
    "domain": "customer 18",
    "offset": None,
    "limit_key": None,
    "name": None,
    "meta": {},
    "webhook": "https://example.org",
    "requested_run_at": None,
}


def signed(job: JobRecord = JOB, signer: Signer = SIGNER) -> JobRecord:
    return signer.sign([job])[0]


def test_a_signed_job_is_valid():
    assert SIGNER.verify(signed()) is Verdict.VALID


def test_every_signed_field_has_another_value_above():
    assert {*OTHER, "signature"} == set(SIGNED)


@pytest.mark.parametrize("field", OTHER)
def test_a_change_of_any_signed_field_is_found(field: str):
    assert SIGNER.verify(replace(signed(), **{field: OTHER[field]})) is Verdict.INVALID


def test_counters_and_the_moving_run_at_are_not_signed():
    moved = replace(signed(), attempts=3, crashes=1, run_at=None, last_error="x", failed_at=1, unique_for=5)
    assert SIGNER.verify(moved) is Verdict.VALID


def test_a_job_of_another_space_is_not_valid():
    assert Signer(KeyRing([KEY]), space="other").verify(signed()) is Verdict.INVALID


def test_a_batch_has_the_signatures_of_its_records():
    ids, payloads, keys = ["j1", "j2", "j3"], [b"1", b"2", b"3"], ["a", None, "c"]
    for limit_keys in (None, ["a", None, "b"]):
        batch = JobBatch(replace(JOB, idempotency_key=None), ids, payloads, keys, limit_keys=limit_keys)
        result = SIGNER.sign(batch)
        assert isinstance(result, JobBatch)
        assert list(result) == list(SIGNER.sign(list(batch)))
        assert {SIGNER.verify(job) for job in result} == {Verdict.VALID}


def test_a_signature_from_before_there_were_limit_keys_is_valid():
    older = replace(JOB, limit_key=None, signature="k1:v1.EaErhc7pWeufoKp8cP39PNHBiSgeqNa0EwVQBU1LUHY")
    assert SIGNER.verify(older) is Verdict.VALID
    assert SIGNER.verify(replace(older, limit_key="mail.example.org")) is Verdict.INVALID


def test_an_unsigned_job_and_an_unknown_key_are_told_apart_from_a_wrong_mac():
    other_secret = Signer(KeyRing([SigningKey(id="k1", secret=b"another secret of k1")]), space="acme")
    other_id = Signer(KeyRing([SigningKey(id="k2", secret=SECRET)]), space="acme")
    assert SIGNER.verify(JOB) is Verdict.UNSIGNED
    assert SIGNER.verify(signed(signer=other_id)) is Verdict.UNKNOWN_KEY
    assert SIGNER.verify(signed(signer=other_secret)) is Verdict.INVALID


@pytest.mark.parametrize("text", ["", "k1", "k1:", ":", "k1:v1.", "k1:v2.AAAA", "k1:é", "k1:\ud800"])
def test_a_malformed_signature_is_not_valid(text: str):
    assert SIGNER.verify(replace(JOB, signature=text)) in {Verdict.INVALID, Verdict.UNKNOWN_KEY}


def test_the_newest_key_signs_and_all_keys_verify():
    new = SigningKey(id="k2", secret=b"a newer secret of ours")
    rotated = Signer(KeyRing([KEY, new]), space="acme")
    before, after = signed(), signed(signer=rotated)
    assert str(after.signature).startswith("k2:v1.")
    assert [rotated.verify(job) for job in (before, after)] == [Verdict.VALID, Verdict.VALID]


def test_a_key_of_a_queue_signs_and_verifies_only_jobs_of_this_queue():
    mail = SigningKey(id="mail-1", secret=b"the secret of the mail queue", queue="mail")
    ring = Signer(KeyRing([KEY, mail]), space="acme")
    other_queue = signed(replace(JOB, queue="other"), ring)
    assert str(signed(signer=ring).signature).startswith("mail-1:")
    assert str(other_queue.signature).startswith("k1:")
    # Somebody who has only the key of the queue mail makes a job for another queue.
    thief = Signer(KeyRing([dataclasses.replace(mail, queue=None)]), space="acme")
    assert ring.verify(signed(replace(JOB, queue="other"), thief)) is Verdict.INVALID
    with pytest.raises(InvalidInput, match="a key for the queue other"):
        Signer(KeyRing([mail])).sign([replace(JOB, queue="other")])


def test_no_key_is_in_a_repr_an_error_or_a_pickle():
    ring = KeyRing([KEY])
    assert "horse" not in repr((KEY, ring, SIGNER, Secret("horse")))
    with pytest.raises(InvalidInput) as refusal:
        SigningKey(id="k1", secret=b"short horse")
    assert "horse" not in str(refusal.value)
    for value in (KEY, ring, SIGNER):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(value)
    assert pickle.loads(pickle.dumps(Secret("horse"))) == Secret("")
    assert b"horse" not in pickle.dumps(Secret("horse"))


def test_single_byte_corruptions_of_a_signed_envelope_are_found():
    assert corrupt_envelopes(CORRUPTIONS, seed=16) > CORRUPTIONS / 20
