-- The number of large payloads without a job, up to a limit. Index: holdfast_payloads_space, and two probes per payload.
SELECT count(*)
  FROM (SELECT 1 FROM holdfast_payloads AS large INDEXED BY holdfast_payloads_space
         WHERE large.space = :space
           AND NOT EXISTS (SELECT 1 FROM holdfast_jobs AS j WHERE j.payload_seq = large.seq)
           AND NOT EXISTS (SELECT 1 FROM holdfast_ended AS e WHERE e.payload_seq = large.seq)
         LIMIT :limit) AS some
