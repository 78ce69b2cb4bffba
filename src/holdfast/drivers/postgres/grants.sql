-- The rights of clients and workers: everything but install and upgrade. The role that owns the schema runs this script
-- after every `holdfast schema install`, because a new version may have new tables:
--
--     holdfast schema grants --role NAME | psql "$OWNER_URL" --set ON_ERROR_STOP=1 --single-transaction
--
-- The role must exist: CREATE ROLE NAME LOGIN, or NOLOGIN for a group whose members log in. Functions need no grant:
-- they run with the rights of the caller.

GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.jobs, {schema}.arrivals, {schema}.ended TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.ledger, {schema}.spaces, {schema}.dedupe TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.settings, {schema}.registry, {schema}.notes TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.payloads TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.limit_keys, {schema}.key_changes TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.domains, {schema}.ended_offsets TO {role};
GRANT SELECT ON {schema}.origin, {schema}.migrations, {schema}.functions TO {role};
GRANT USAGE ON SEQUENCE {schema}.counter, {schema}.ledger_seq, {schema}.jobs_seq_seq TO {role};
