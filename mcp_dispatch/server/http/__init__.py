"""Streamable HTTP: the listening socket, authentication, request limits and the ASGI stack."""
