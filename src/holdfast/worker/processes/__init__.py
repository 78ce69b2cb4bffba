"""The child processes of a worker: the pool and its decisions, the fork server, the protocol, and the child itself."""
