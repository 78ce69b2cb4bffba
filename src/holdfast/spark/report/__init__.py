"""A history as one HTML page or one picture."""
