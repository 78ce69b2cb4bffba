"""Requests and answers: the server, the application, and the checks before an operation is called."""
