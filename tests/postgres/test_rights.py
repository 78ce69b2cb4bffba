"""A role with the rights of `holdfast schema grants` can do everything but install and upgrade."""

import re
import secrets

import psycopg
import pytest

import holdfast
from holdfast.drivers.packing import MAX_INLINE_BYTES
from holdfast.drivers.postgres.migrations import grants_sql
from holdfast.drivers.requests import Trim
from holdfast.errors import InvalidInput, SchemaMismatch, StoreError, StoreUnavailable
from holdfast.model.settlement import Ack
from holdfast.testing.drivers.conformance import CaseStatus, cases, run_cases
from holdfast.testing.drivers.harness import UrlHarness
from tests.postgres.pooler import pool

GRANTS = re.compile(r"(?m)^GRANT .*;$")


@pytest.fixture
def role(url):
    """The URL of a role without any rights in a database that has a store."""
    holdfast.connect(url).close()
    name = f"role_{secrets.token_hex(4)}"
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(f"CREATE ROLE {name} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE")
        yield name, session
        session.execute(f"DROP OWNED BY {name}")
        session.execute(f"DROP ROLE {name}")


def read_grants(role):
    """Return the GRANT statements of the script, for a role."""
    grants = GRANTS.findall(grants_sql("postgresql://h/d", role))
    assert len(grants) >= 3, "wanted GRANT statements in the script"
    return grants


@pytest.mark.parametrize(("every", "least"), [(8, 300), pytest.param(1, 3000, marks=pytest.mark.long)])
def test_a_role_with_the_listed_rights_passes_the_conformance_suite_behind_a_transaction_pooler(
    url, role, every, least
):
    """One run of the suite for both restrictions: every case must pass under each of them, so under both."""
    name, session = role
    for grant in read_grants(name):
        session.execute(grant)
    with pool(url.replace("postgres@", f"{name}@")) as (through, pooler):
        harness = UrlHarness(through)
        results = list(run_cases(harness, cases()[::every]))
        harness.close()
        transactions = pooler.transactions
    failed = [(result.case.name, result.reason) for result in results if result.status is CaseStatus.FAILED]
    assert failed == []
    assert transactions > least


def run_job(url, record):
    with holdfast.connect(url) as store:
        store.enqueue([record])
        [reservation] = store.reserve(["q"], limit=1, lease_for=60_000_000)
        store.settle([Ack(reservation.lease)])
        store.do(Trim())


def test_every_listed_right_is_needed(url, role, job):
    """Without one of them, at least one call in the life of a job fails; with all of them, none does."""
    name, session = role
    grants = read_grants(name)
    for grant in grants:
        session.execute(grant)
    large = b"1" * (MAX_INLINE_BYTES + 1)
    run_job(url.replace("postgres@", f"{name}@"), job(domain="d", idempotency_key="k", payload=large))
    session.execute(f"DROP OWNED BY {name}")
    for missing in grants:
        for grant in grants:
            if grant != missing:
                session.execute(grant)
        with pytest.raises(StoreError):
            run_job(url.replace("postgres@", f"{name}@"), job(domain="d", idempotency_key=missing, payload=large))
        session.execute(f"DROP OWNED BY {name}")


def test_a_role_that_may_not_install_is_told_what_to_do(url, role):
    name, session = role
    for grant in read_grants(name):
        session.execute(grant)
    session.execute("UPDATE holdfast.functions SET revision = 0, checksum = 'older'")
    with pytest.raises(SchemaMismatch, match=r"may not change it.*schema install"):
        holdfast.connect(url.replace("postgres@", f"{name}@"))


def test_a_role_with_the_listed_rights_may_change_neither_tables_nor_functions(url, role):
    name, session = role
    for grant in read_grants(name):
        session.execute(grant)
    with psycopg.connect(url.replace("postgres@", f"{name}@"), autocommit=True) as guest:
        for statement in (
            "CREATE TABLE holdfast.mine (id integer)",
            "ALTER TABLE holdfast.jobs ADD COLUMN mine text",
            "DROP FUNCTION holdfast.reap",
            "TRUNCATE holdfast.ledger",
            "DELETE FROM holdfast.migrations",
            "UPDATE holdfast.functions SET revision = 99",
            "SELECT setval('holdfast.counter', 1)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                guest.execute(statement)


def test_the_script_can_be_repeated_and_members_of_its_role_can_work(url, role, job):
    """The name of the group tries to end its quotes, the statement and a block, and is as long as a name can be."""
    name, session = role
    group = f"""Gr0up"; DROP TABLE x; -- $$ '{{schema}} ö {name}"""
    group += "x" * (63 - len(group.encode()))
    quoted = '"' + group.replace('"', '""') + '"'
    session.execute(f"CREATE ROLE {quoted}".encode())
    for _ in range(2):
        session.execute(grants_sql(url, group).encode())
    session.execute(f"GRANT {quoted} TO {name}".encode())
    try:
        run_job(url.replace("postgres@", f"{name}@"), job())
    finally:
        session.execute(f"DROP OWNED BY {quoted}".encode())
        session.execute(f"DROP ROLE {quoted}".encode())


def test_the_script_is_for_the_schema_of_the_url(url, role, job):
    name, session = role
    separator = "&" if "?" in url else "?"
    other = f"{url}{separator}schema=mine"
    holdfast.connect(other).close()
    session.execute(grants_sql(other, name).encode())
    run_job(other.replace("postgres@", f"{name}@"), job())
    with pytest.raises(StoreError):
        run_job(url.replace("postgres@", f"{name}@"), job())


@pytest.mark.parametrize("name", ["", "x" * 64, "ö" * 32, "a\0b", "a\nb", "\udc80"])
def test_a_name_that_no_role_can_have_is_refused(name):
    with pytest.raises(InvalidInput, match="wanted the name of a role"):
        grants_sql("postgresql://h/d", name)


def test_a_missing_right_names_the_command_that_prints_the_rights(url, role, job):
    """Of the schema, where the first connection fails, and of one table."""
    name, session = role
    as_role = url.replace("postgres@", f"{name}@")
    with pytest.raises(StoreUnavailable, match=r"permission denied.*`holdfast schema grants --role NAME`"):
        run_job(as_role, job())
    for grant in read_grants(name):
        session.execute(grant)
    session.execute(f"REVOKE INSERT ON holdfast.jobs FROM {name}")
    with pytest.raises(StoreUnavailable, match=r"permission denied.*`holdfast schema grants --role NAME`"):
        run_job(as_role, job())
