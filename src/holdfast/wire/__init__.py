"""How jobs travel: codecs for payloads, one canonical envelope for every store, records from requests."""
