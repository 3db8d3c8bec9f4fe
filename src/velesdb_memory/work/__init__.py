"""Work in the background: rows of the store that any process's worker may take."""
