-- When the next job may be due.

-- name: first_expiry
-- When the first lease of each of these queues expires. Index: holdfast_jobs_leased, one probe per queue.
SELECT (SELECT min(j.expires_at) FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_leased
         WHERE j.space = :space AND j.queue = given.value AND j.state = 'inflight')
  FROM json_each(:queues) AS given


-- name: first_gap
-- Since when the first domain of each of these queues waits for an offset; 0 if a reserve must look for gaps first, NULL
-- if none waits. Index: holdfast_domains_arrived, holdfast_domains_waiting, one probe each per queue.
SELECT given.value,
       CASE WHEN EXISTS (SELECT 1 FROM holdfast_domains AS d INDEXED BY holdfast_domains_arrived
                          WHERE d.space = :space AND d.queue = given.value AND d.arrived = 1) THEN 0
            ELSE (SELECT min(d.waiting_since) FROM holdfast_domains AS d INDEXED BY holdfast_domains_waiting
                   WHERE d.space = :space AND d.queue = given.value AND d.waiting_since IS NOT NULL) END
  FROM json_each(:queues) AS given


-- name: first_wake
-- When reserve must look at parked jobs of each of these queues. Index: holdfast_limit_keys_wake, one probe per queue.
SELECT given.value, (SELECT min(k.wake_at) FROM holdfast_limit_keys AS k INDEXED BY holdfast_limit_keys_wake
                      WHERE k.space = :space AND k.queue = given.value AND k.wake_at IS NOT NULL)
  FROM json_each(:queues) AS given


-- name: lane_heads
-- The lanes of these queues, and when the first job of each is, or becomes, available; NULL if the lane is empty. Index:
-- holdfast_jobs_lane, one probe per lane.
SELECT l.queue, l.type, l.priority, kinds.isolated,
       (SELECT j.available_at FROM holdfast_jobs AS j INDEXED BY holdfast_jobs_lane
         WHERE j.space = l.space AND j.queue = l.queue AND j.type = l.type AND j.priority = l.priority
           AND j.isolated = kinds.isolated AND j.state = 'ready' AND j.turn = 1
         ORDER BY j.available_at, j.seq LIMIT 1)
  FROM json_each(:queues) AS given
 CROSS JOIN holdfast_lanes AS l ON l.space = :space AND l.queue = given.value
 CROSS JOIN (SELECT 0 AS isolated UNION ALL SELECT 1) AS kinds
