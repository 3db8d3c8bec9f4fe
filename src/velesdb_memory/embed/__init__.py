"""Embedders: text in, vectors out. Imports here stay light; backends load what they need on first use."""
