-- The settings of these queues and of their types, each with the number of its leases. Leases are counted only where a
-- setting limits them, and then there are at most as many as the limit. Those of a queue tell also whether jobs have
-- arrived that begin or end the wait of a domain. Index: holdfast_jobs_leased, holdfast_domains_arrived.
SELECT s.queue, s.type, {s.settings_columns}, s.level, s.level_at, s.keyed,
       s.type = '' AND EXISTS (SELECT 1 FROM holdfast_domains AS d INDEXED BY holdfast_domains_arrived
                                WHERE d.space = s.space AND d.queue = s.queue AND d.arrived = 1),
       CASE WHEN s.max_inflight IS NULL AND NOT s.probing THEN 0 ELSE
         (SELECT count(*) FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
           WHERE j.space = s.space AND j.queue = s.queue AND j.state = 'inflight' AND s.type IN ('', j.type)) END
  FROM json_each(:queues) AS given CROSS JOIN holdfast_settings AS s ON s.space = :space AND s.queue = given.value
