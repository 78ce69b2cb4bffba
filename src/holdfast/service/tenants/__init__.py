"""What the service does in a space: calls to its store in threads, batches of requests that meet, waiting claims."""
