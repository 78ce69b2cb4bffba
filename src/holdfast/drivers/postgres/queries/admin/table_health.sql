-- Live and dead rows of the hot tables, and the age of the oldest transaction of this database: vacuum cannot remove
-- rows that died after it began. Reads statistics only.
SELECT coalesce(sum(t.n_live_tup), 0)::bigint, coalesce(sum(t.n_dead_tup), 0)::bigint,
       (SELECT (extract(epoch FROM max(clock_timestamp() - a.xact_start)) * 1000000)::bigint
          FROM pg_stat_activity AS a
         WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
           AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL))
  FROM pg_stat_all_tables AS t
 WHERE t.schemaname = %(schema)s
   AND t.relname IN ('jobs', 'arrivals', 'limit_keys', 'key_changes', 'domains', 'ended_offsets')
