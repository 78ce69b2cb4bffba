"""The encoded forms of a job: payload codecs, the canonical envelope, records from requests, messages to children."""
