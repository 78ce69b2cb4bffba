-- Whether the first job of a domain of an acked job may have to wait: the domain is halted, waits for an offset, does not
-- begin at offset 0 (it has a row), or its queue waits for missing offsets. Index: the primary keys.
SELECT EXISTS (
  SELECT 1 FROM holdfast_acking AS a
   WHERE a.domain IS NOT NULL
     AND (EXISTS (SELECT 1 FROM holdfast_domains AS d
                   WHERE d.space = :space AND d.queue = a.queue AND d.domain = a.domain)
       OR EXISTS (SELECT 1 FROM holdfast_settings AS s
                   WHERE s.space = :space AND s.queue = a.queue AND s.type = '' AND s.gaps = 'wait')))
