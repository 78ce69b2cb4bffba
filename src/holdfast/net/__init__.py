"""Outgoing requests to addresses that users give. ``guarded`` is the only code that makes them."""
