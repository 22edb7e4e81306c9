"""Requests to a server, and the requests that the server sends meanwhile."""
