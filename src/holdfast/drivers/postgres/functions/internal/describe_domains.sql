-- Return what an operator sees of these domains: DomainInfo in model/domain.py, in the order of the arrays.
--
-- Locks: none. Index: jobs_domain, jobs_turn, the primary keys of domains, settings and ended_offsets.
-- Shape: a few probes per domain. The open jobs are counted by the caller, for those that are listed.
CREATE OR REPLACE FUNCTION describe_domains(_space text, _now bigint, _queues text[], _domains text[])
RETURNS TABLE (
  queue text, domain text, status text, "position" bigint, waits_for bigint, waiting_since bigint, halted_by text,
  halted_at bigint, head_id text, head_offset bigint, is_overdue boolean, item bigint
) LANGUAGE plpgsql ROWS 100 AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT d.queue, d.domain,
         CASE WHEN r.halted_by IS NOT NULL THEN 'halted'
              WHEN head.state = 'inflight' THEN 'running'
              WHEN g.has_gap THEN 'waiting'
              WHEN head.due_at > _now THEN 'backoff'
              ELSE 'open' END,
         p.position, CASE WHEN g.has_gap THEN p.position END,
         CASE WHEN g.has_gap AND r.waits_for = p.position THEN r.waiting_since END, r.halted_by, r.halted_at, head.id,
         head.place,
         coalesce(g.has_gap AND r.waits_for = p.position AND r.waiting_since + s.gap_report_after <= _now, false), d.item
    FROM (SELECT u.* FROM unnest(_queues, _domains) WITH ORDINALITY AS u (queue, domain, item) OFFSET 0) AS d
    LEFT JOIN LATERAL (
      SELECT j.id, j.state, j."offset" AS place, j.seq, coalesce(j.parked_from, j.available_at) AS due_at FROM jobs AS j
       WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND j.turn LIMIT 1) AS holder ON true
    LEFT JOIN LATERAL (
      SELECT j.id, j.state, j."offset" AS place, j.seq, coalesce(j.parked_from, j.available_at) AS due_at FROM jobs AS j
       WHERE j.space = _space AND j.queue = d.queue AND j.domain = d.domain AND NOT j.turn
       ORDER BY j."offset", j.seq LIMIT 1) AS waiting ON true
    LEFT JOIN LATERAL (
      SELECT * FROM (VALUES (holder.id, holder.state, holder.place, holder.seq, holder.due_at),
                            (waiting.id, waiting.state, waiting.place, waiting.seq, waiting.due_at))
                    AS j (id, state, place, seq, due_at)
       WHERE j.id IS NOT NULL ORDER BY j.place, j.seq LIMIT 1) AS first ON true
    LEFT JOIN LATERAL (
      SELECT * FROM domains AS r WHERE r.space = _space AND r.queue = d.queue AND r.domain = d.domain OFFSET 0) AS r ON true
    LEFT JOIN LATERAL (
      SELECT s.gaps, s.gap_report_after FROM settings AS s
       WHERE s.space = _space AND s.queue = d.queue AND s.type = '' OFFSET 0) AS s ON true
    LEFT JOIN LATERAL (
      SELECT o.last FROM ended_offsets AS o
       WHERE o.space = _space AND o.queue = d.queue AND o.domain = d.domain AND o.first <= coalesce(r.start, 0)
       ORDER BY o.first DESC LIMIT 1) AS ended ON true
   CROSS JOIN LATERAL (
     SELECT greatest(coalesce(r.start, 0), ended.last + (ended.last < 9223372036854775807)::integer) AS position) AS p
   CROSS JOIN LATERAL (
     SELECT CASE WHEN holder.state = 'inflight' THEN holder.id ELSE first.id END AS id,
            CASE WHEN holder.state = 'inflight' THEN holder.state ELSE first.state END AS state,
            CASE WHEN holder.state = 'inflight' THEN holder.place ELSE first.place END AS place,
            first.due_at) AS head
   CROSS JOIN LATERAL (
     SELECT coalesce(s.gaps = 'wait' AND r.halted_by IS NULL AND holder.state IS DISTINCT FROM 'inflight'
                     AND first.place > p.position, false) AS has_gap) AS g
   ORDER BY d.item;
END $$;
