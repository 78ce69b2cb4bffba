"""The service as a store: requests of ``connect("https://...")``."""
