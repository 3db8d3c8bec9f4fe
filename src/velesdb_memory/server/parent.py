"""Whether the process that started this one is still there, without asking it."""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _SYNCHRONIZE = 0x00100000
    _SIGNALLED = 0

    class Parent:
        """The parent when this was made. A handle, not a number: Windows gives numbers of the dead to others."""

        def __init__(self) -> None:
            self._kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            self._kernel.OpenProcess.restype = wintypes.HANDLE
            self._kernel.WaitForSingleObject.argtypes = (wintypes.HANDLE, wintypes.DWORD)
            self._handle = self._kernel.OpenProcess(_SYNCHRONIZE, False, os.getppid())

        def gone(self) -> bool:
            """True once it has ended."""
            return bool(self._handle) and self._kernel.WaitForSingleObject(self._handle, 0) == _SIGNALLED

else:

    class Parent:
        """The parent when this was made. An orphan is given to another process, and not always to number 1."""

        def __init__(self) -> None:
            self._pid = os.getppid()

        def gone(self) -> bool:
            """True once it has ended."""
            return os.getppid() != self._pid
