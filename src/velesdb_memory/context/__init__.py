"""The context compiler: pure, deterministic, one stage a module; ``compiler`` composes them."""
