"""Runs jobs: one attempt as named steps, the loop around it, heartbeats, and the children that handlers run in."""
