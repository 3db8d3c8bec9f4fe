"""The definitions by which an operating system keeps the daemon running: texts, made and checked without a system.

Each is a service of one user, starts with that user's session, and needs no rights beyond it.
"""

from __future__ import annotations

import plistlib
import re
from collections.abc import Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

from .errors import InvalidArgument

UNIT: Final = "velesdb-memory.service"
LABEL: Final = "velesdb-memory.daemon"
TASK: Final = r"\velesdb-memory"
STOP_SECONDS: Final = 30  # that the system gives the daemon to end; it gives calls in flight less than that
_TASK_SPACE: Final = "http://schemas.microsoft.com/windows/2004/02/mit/task"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def _plain(words: Sequence[str]) -> None:
    for word in words:
        if _CONTROL.search(word):
            problem = "holds a control character, which no service can be given"
            raise InvalidArgument(f"{word[:80]!r} {problem}", field="service")


def systemd_unit(command: Sequence[str], environment: Mapping[str, str], secrets: str) -> str:
    """A unit of the user's systemd that runs ``command`` with ``environment``; ``secrets`` is a file of variables that
    is read if it is there.

    Raises InvalidArgument for control characters.
    """
    _plain([*command, *environment.values(), secrets])
    variables = "".join(f"Environment={_systemd(f'{name}={value}', '')}\n" for name, value in environment.items())
    return f"""[Unit]
Description=velesdb-memory: durable memory for AI agents
After=network.target

[Service]
Type=exec
ExecStart={" ".join(_systemd(word, "$") for word in command)}
{variables}EnvironmentFile=-{secrets.replace("%", "%%")}
Restart=on-failure
RestartSec=2
TimeoutStopSec={STOP_SECONDS + 5}
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


def _systemd(word: str, also: str) -> str:
    """``word`` quoted; ``also`` are characters that are special here beside the percent sign."""
    for character in "%" + also:
        word = word.replace(character, character * 2)
    quoted = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def launchd_agent(command: Sequence[str], environment: Mapping[str, str], log: str) -> bytes:
    """A launchd agent that runs ``command`` with ``environment`` and appends what it says to ``log``.

    Raises InvalidArgument for control characters.
    """
    _plain([*command, *environment.values(), log])
    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(command),
            "EnvironmentVariables": dict(environment),
            "RunAtLoad": True,
            # it ends with 0 only when it was asked to
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 5,
            "ExitTimeOut": STOP_SECONDS + 5,
            "ProcessType": "Background",
            "StandardErrorPath": log,
            "Umask": 0o077,
        },
        sort_keys=False,
    )


def scheduled_task(command: Sequence[str], user: str) -> str:
    """A task of Windows that runs ``command`` while ``user`` is logged on, and again a minute after a failure.

    A task has no environment of its own: settings are flags of the command. Raises InvalidArgument for control
    characters.
    """
    _plain([*command, user])
    program, *arguments = command
    return f"""<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="{_TASK_SPACE}">
  <RegistrationInfo>
    <Description>velesdb-memory: durable memory for AI agents</Description>
  </RegistrationInfo>
  <Triggers>
    <LogonTrigger>
      <Enabled>true</Enabled>
      <UserId>{escape(user)}</UserId>
    </LogonTrigger>
  </Triggers>
  <Principals>
    <Principal id="Author">
      <UserId>{escape(user)}</UserId>
      <LogonType>InteractiveToken</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <StartWhenAvailable>true</StartWhenAvailable>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure>
      <Interval>PT1M</Interval>
      <Count>3</Count>
    </RestartOnFailure>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>{escape(program)}</Command>
      <Arguments>{escape(" ".join(map(_windows, arguments)))}</Arguments>
    </Exec>
  </Actions>
</Task>
"""


def _windows(word: str) -> str:
    """``word`` as the C runtime of Windows takes it apart again."""
    if word and not re.search(r'[\s"]', word):
        return word
    # backslashes count only before a quote
    return '"' + re.sub(r'(\\*)("|$)', lambda found: found[1] * 2 + ('\\"' if found[2] else ""), word) + '"'
