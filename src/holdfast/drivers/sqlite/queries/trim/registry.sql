-- Delete registry entries that have expired. Index: holdfast_registry_expiry.
DELETE FROM holdfast_registry
 WHERE rowid IN (SELECT rowid FROM holdfast_registry INDEXED BY holdfast_registry_expiry
                  WHERE space = :space AND expires_at <= :now LIMIT :limit)
