"""The programs that people use with this server: where each keeps its configuration, and how an entry is put there."""
