"""Who calls: providers check the bearer token of a request and return a ``Principal``."""
