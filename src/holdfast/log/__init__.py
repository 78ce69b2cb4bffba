"""The log: every event as an object, and how it becomes a record of the standard ``logging``."""
