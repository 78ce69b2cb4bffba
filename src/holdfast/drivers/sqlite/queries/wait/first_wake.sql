-- When reserve must look at parked jobs of each of these queues. Index: holdfast_limit_keys_wake, one probe per queue.
SELECT given.value, (SELECT min(k.wake_at) FROM holdfast_limit_keys AS k INDEXED BY holdfast_limit_keys_wake
                      WHERE k.space = :space AND k.queue = given.value AND k.wake_at IS NOT NULL)
  FROM json_each(:queues) AS given
