"""The verbs of a driver as messages: what the HTTP driver sends, and what the HTTP service answers (ADR 0047)."""
