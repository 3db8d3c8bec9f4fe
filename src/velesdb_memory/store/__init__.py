"""Where memories live. ``base`` is the seam; ``sqlite`` is the default behind it."""
