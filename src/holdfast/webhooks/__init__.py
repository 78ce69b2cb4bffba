"""Callbacks and notifications: requests that Holdfast sends to producers and workers.

A reader of the ledger (``callbacks``) makes a delivery job of each end of a job with a webhook, and senders
(``deliveries``) run the delivery jobs. ``runner`` does both for the spaces of a process, in ``serve`` and ``work``.
"""
