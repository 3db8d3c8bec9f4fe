"""``python -m velesdb_memory`` is the command ``velesdb-memory``."""

import sys

from velesdb_memory.cli.main import main

sys.exit(main())
