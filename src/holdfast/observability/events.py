"""Every log event and its fields."""

from __future__ import annotations
