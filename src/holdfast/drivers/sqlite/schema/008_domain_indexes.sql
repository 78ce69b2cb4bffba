-- Fewer index pages for each job of a domain. Jobs of many domains end in turn, so nearly every job that ends changes
-- another page of each index that is sorted by domain.

-- One index instead of two: the order in a domain, and one job for each offset. NULL offsets are distinct; among them
-- the rowid, which is seq, decides.
DROP INDEX holdfast_jobs_offset;
DROP INDEX holdfast_jobs_domain;
CREATE UNIQUE INDEX holdfast_jobs_domain ON holdfast_jobs (space, queue, domain, "offset") WHERE domain IS NOT NULL;

-- Offset first: domains that are filled and drained together have similar offsets, and their entries share pages. Every
-- search names both columns.
DROP INDEX holdfast_ended_offset;
CREATE INDEX holdfast_ended_offset ON holdfast_ended (space, queue, "offset", domain, seq) WHERE "offset" IS NOT NULL;
