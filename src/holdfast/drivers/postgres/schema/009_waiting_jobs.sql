-- Only the jobs of a domain that wait for the turn. Two of the three writes of a job, when it gets the turn and when it is
-- leased, do not touch this index any more; jobs_turn has the job with the turn.
DROP INDEX jobs_domain;
CREATE INDEX jobs_domain ON jobs (space, queue, domain, "offset", seq) WHERE domain IS NOT NULL AND NOT turn;
