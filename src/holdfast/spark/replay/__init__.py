"""Replays: enqueue ended jobs again, with a preview, resumable."""
