"""The checks that all drivers share."""

import pytest

import holdfast
import holdfast.driver
from holdfast.clock import SECOND
from holdfast.drivers.cursors import domain_cursor, ledger_position, read_domain_cursor
from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord
from holdfast.model.settlement import Ack


@pytest.mark.parametrize("cursor", ["", "-1", "1.0", "x", "\u0663", "6", "9" * 30])
def test_a_cursor_is_a_number_up_to_the_last_row(cursor):
    assert ledger_position("5", written=5) == 5
    with pytest.raises(InvalidInput, match="cursor that this ledger gave"):
        ledger_position(cursor, written=5)


@pytest.mark.parametrize("cursor", ["", "q", '["q"]', '["q", 1]', '{"q": "d"}', "\ud800", None])
def test_a_cursor_of_domains_has_a_queue_and_a_name(cursor):
    assert read_domain_cursor(domain_cursor("q", 'd\u00e9, "x"')) == ("q", 'd\u00e9, "x"')
    with pytest.raises(InvalidInput, match="cursor that `domains` gave"):
        read_domain_cursor(cursor)


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{folder}/jobs.db"])
def test_a_cursor_beyond_the_end_of_the_ledger_is_refused(url, tmp_path):
    """As after a restore from a backup: the reader would skip the rows that are written up to that position."""
    store = holdfast.connect(url.format(folder=tmp_path))
    later = store.space("later")
    later.enqueue([JobRecord(id=f"j{n}", type="t", queue="q", payload=b"", created_at=0) for n in range(3)])
    later.settle([Ack(reserved.lease) for reserved in later.reserve(["q"], limit=3, lease_for=60 * SECOND)])
    cursor = later.ledger().cursor
    with pytest.raises(InvalidInput, match="older copy"):
        store.ledger(after=cursor)
    store.close()


def test_a_lease_does_not_show_its_token():
    lease = holdfast.driver.Lease(job_id="a", token="1.secret", fence=1, expires_at=5)
    assert "secret" not in repr(lease)
