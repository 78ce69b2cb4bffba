"""Corruptions of signed envelopes, for a unit test and, in large numbers, for a soak."""

from __future__ import annotations

import random

from holdfast.clock import SECOND
from holdfast.errors import PayloadError
from holdfast.model.job import JobRecord
from holdfast.wire.envelope import from_envelope, to_envelope
from holdfast.wire.signing import KeyRing, Signer, SigningKey, Verdict

KEY = SigningKey(id="k1", secret=b"correct horse battery staple")
SPACE = "acme"
SIGNER = Signer(KeyRing([KEY]), space=SPACE)
JOB = JobRecord(
    id="0190163d-8694-739b-aea5-966c26f8ad91",
    type="mail.send",
    queue="mail",
    payload=b'{"to":"ada@example.org","amount":1.0}',
    created_at=1_800_000_000 * SECOND,
    idempotency_key="welcome ada",
    domain="customer 17",
    offset=3,
    limit_key="mail.example.org",
    name="welcome",
    meta={"team": "growth", "trace": {"id": "4bf9", "sampled": True}},
    timeout=30 * SECOND,
    run_at=1_800_000_060 * SECOND,
    requested_run_at=1_800_000_060 * SECOND,
)
# The fields that no signature covers, as docs/reference/envelope.md says.
UNSIGNED = {"attempts", "crashes", "max_crashes", "state", "last_error", "failed_at", "dead_reason", "dead_at"}
UNSIGNED |= {"result", "run_at", "unique_for"}
SIGNED = [name for name in JobRecord.__struct_fields__ if name not in UNSIGNED]


def corrupt_envelopes(count: int, *, seed: int) -> int:
    """Change one byte of a signed envelope, ``count`` times; return how many changes the signature has found.

    The reader refuses the others, or they are outside the identity: then exactly the signed job would run.
    """
    [signed] = SIGNER.sign([JOB])
    envelope = to_envelope(signed, space=SPACE)
    numbers = random.Random(seed)
    found = 0
    for _ in range(count):
        place = numbers.randrange(len(envelope))
        byte = (envelope[place] + numbers.randrange(1, 256)) % 256
        if numbers.random() < 0.5:
            byte = envelope[place] ^ (1 << numbers.randrange(7))
        try:
            job, space = from_envelope(envelope[:place] + bytes([byte]) + envelope[place + 1 :])
        except PayloadError:
            continue
        if Signer(KeyRing([KEY]), space=space).verify(job) is Verdict.VALID:
            assert space == SPACE
            for name in SIGNED:
                assert getattr(job, name) == getattr(signed, name), f"{name} was changed: byte {place} is {byte}"
        else:
            found += 1
    return found
