-- Since when the first domain of each of these queues waits for an offset; 0 if a reserve must look for gaps first, NULL
-- if none waits. Index: holdfast_domains_arrived, holdfast_domains_waiting, one probe each per queue.
SELECT given.value,
       CASE WHEN EXISTS (SELECT 1 FROM holdfast_domains AS d INDEXED BY holdfast_domains_arrived
                          WHERE d.space = :space AND d.queue = given.value AND d.arrived = 1) THEN 0
            ELSE (SELECT min(d.waiting_since) FROM holdfast_domains AS d INDEXED BY holdfast_domains_waiting
                   WHERE d.space = :space AND d.queue = given.value AND d.waiting_since IS NOT NULL) END
  FROM json_each(:queues) AS given
