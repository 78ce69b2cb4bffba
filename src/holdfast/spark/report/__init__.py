"""The report of a history: one HTML page, or one picture."""
