"""Each benchmark answers one question as a ratio, measured in one run: absolute times differ between machines."""
