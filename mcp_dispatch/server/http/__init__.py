"""Streamable HTTP: the address and its token, who may come in, and the server that answers."""
