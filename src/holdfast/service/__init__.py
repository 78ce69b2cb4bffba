"""The HTTP service: producers and workers in any language, over a store. Needs ``pip install 'holdfast[serve]'``.

It speaks of tasks and commands, claims and nacks, ``PENDING`` and ``COMPLETED``; ``statuses`` and ``routes`` translate
these words into those of the contract. docs/reference/http.md describes every call.
"""
