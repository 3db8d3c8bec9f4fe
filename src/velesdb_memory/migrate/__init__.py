"""Changing a store over to another embedding model while it is in use."""
