-- The rights of clients and workers on PostgreSQL: all but install and upgrade. A role that owns the schema runs this
-- file after every `holdfast schema install`, because a new version may have new tables:
--
--     psql "$OWNER_URL" --set ON_ERROR_STOP=1 --single-transaction --file grants.sql
--
-- Roles that log in become members: GRANT holdfast_worker TO orders. Functions need no grant: they run with the rights
-- of the caller. For a store in another schema (`?schema=`), replace the schema `holdfast`.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'holdfast_worker') THEN
        CREATE ROLE holdfast_worker NOLOGIN;
    END IF;
END
$$;

GRANT USAGE ON SCHEMA holdfast TO holdfast_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.jobs, holdfast.arrivals, holdfast.ended TO holdfast_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.ledger, holdfast.spaces, holdfast.dedupe TO holdfast_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.settings, holdfast.registry, holdfast.notes TO holdfast_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.limit_keys, holdfast.key_changes TO holdfast_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.domains, holdfast.ended_offsets TO holdfast_worker;
GRANT SELECT ON holdfast.origin, holdfast.migrations, holdfast.functions TO holdfast_worker;
GRANT USAGE ON SEQUENCE holdfast.counter, holdfast.ledger_seq, holdfast.jobs_seq_seq TO holdfast_worker;
