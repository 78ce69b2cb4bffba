"""Enqueue ended jobs again: selection, preview, and the resumable replay."""
