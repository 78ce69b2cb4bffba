"""Retry policies: how long a job waits after a failed attempt."""

from __future__ import annotations

from holdfast.model.retry import Custom, Exponential, Fixed, Jitter, Linear, NoDelay, RetryPolicy

__all__ = ["Custom", "Exponential", "Fixed", "Jitter", "Linear", "NoDelay", "RetryPolicy"]
