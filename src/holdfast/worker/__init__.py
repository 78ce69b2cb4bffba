"""The worker: one attempt as named steps, the loop around it, heartbeats, settling, and the pool of child processes."""
