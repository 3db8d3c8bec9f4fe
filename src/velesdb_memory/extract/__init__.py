"""Extractors: a passage in, facts, relations and attributes out."""
