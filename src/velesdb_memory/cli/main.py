"""The command ``velesdb-memory``: a stdio MCP server by default, and commands for people."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import Final

from .. import config
from ..errors import VelesMemoryError
from ..limits import DEFAULT_STDIN_BUDGET
from ..text import shown

Run = Callable[[argparse.Namespace], int]

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}

_EPILOG: Final = "settings (environment):\n" + "\n".join(
    f"  {config.PREFIX}{name:<21} {text}" for name, text in config.SETTINGS.items()
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code: 0 done, 1 failed or found trouble, 2 misused."""
    # whatever the locale says: exports and notices are UTF-8
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
    chosen = _parser().parse_args(arguments)
    try:
        return chosen.run(chosen)
    except VelesMemoryError as error:
        print(f"velesdb-memory: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # the reader of a pipe went away; nothing is wrong with us
        sys.stdout = None
        return 0
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="velesdb-memory",
        description="Durable, explainable memory for AI agents, on your own disk. Without a command: an MCP server on "
        "standard input and output.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", "-V", action="version", version=f"velesdb-memory {_version()}")
    _add_path(parser, "path")
    parser.set_defaults(run=_serve)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    demo = _command(commands, "demo", "show a memory at work: a real session with a server of its own", _demo)
    demo.add_argument("--keep", action="store_true", help="keep the demo's store and print where it is")

    doctor = _command(commands, "doctor", "check the store, and rebuild what is derived where it is damaged", _doctor)
    doctor.add_argument("--no-repair", action="store_true", help="only look")
    _add_path(doctor)

    export = _command(commands, "export", "write everything to JSON lines", _export)
    export.add_argument("--output", "-o", metavar="FILE", help="the file to write (default: standard output)")
    export.add_argument("--include-internal", action="store_true", help="entities and other internal records too")
    _add_path(export)

    work = _command(commands, "work", "read waiting passages and facts now, in the foreground", _work)
    _add_path(work)

    load = _command(commands, "import", "read an export, or the MCP memory server's file", _import)
    load.add_argument("file", metavar="FILE", help="the file to read; - for standard input")
    _add_path(load)

    squeeze = _command(commands, "compile-stdin", "compile a transcript or a log from standard input", _compile_stdin)
    squeeze.add_argument(
        "--budget",
        type=_tokens,
        default=DEFAULT_STDIN_BUDGET,
        metavar="TOKENS",
        help=f"the most tokens the content may have (default: {DEFAULT_STDIN_BUDGET})",
    )
    squeeze.add_argument("--query", default="", metavar="TEXT", help="what matters: decides what is kept first")

    purge = _command(commands, "purge-sources", "remove the originals that compilations no longer use", _purge)
    purge.add_argument(
        "--older-than",
        type=_duration,
        required=True,
        metavar="TIME",
        help="not used for so long: 45s, 30m, 12h, 30d, 2w; 0s for all",
    )
    purge.add_argument("--project", metavar="NAME", help="only those that no other project used")
    purge.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    _add_path(purge)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],  # pyright: ignore[reportPrivateUsage]
    name: str,
    summary: str,
    run: Run,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
    parser.set_defaults(run=run)
    return parser


def _add_path(parser: argparse.ArgumentParser, dest: str = "path") -> None:
    # SUPPRESS: a command without the option must not undo what stood before it
    parser.add_argument(
        "--path", dest=dest, metavar="DIR", default=argparse.SUPPRESS, help=f"the store, instead of {config.PREFIX}PATH"
    )


def _version() -> str:
    from .. import __version__

    return __version__


def _tokens(text: str) -> int:
    if not re.fullmatch("0*[1-9][0-9]{0,17}", text):
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a whole number of at least 1")
    return int(text)


def _duration(text: str) -> int:
    """Seconds of a duration like 45s, 30m, 12h, 30d or 2w."""
    found = re.fullmatch(f"([0-9]{{1,10}})([{''.join(_SECONDS)}])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{shown(text)} is no duration: write it like 45s, 30m, 12h, 30d or 2w")
    return int(found[1]) * _SECONDS[found[2]]


def settings_of(chosen: argparse.Namespace) -> config.Settings:
    """The environment's settings with the options of this call."""
    return config.load(path=getattr(chosen, "path", None))


# Commands import what they need when they run: `--version` must not wait for a database.


def _serve(chosen: argparse.Namespace) -> int:
    from .serve import run

    return run(settings_of(chosen))


def _demo(chosen: argparse.Namespace) -> int:
    from .demo import run

    return run(keep=chosen.keep)


def _doctor(chosen: argparse.Namespace) -> int:
    from .doctor import run

    return run(settings_of(chosen), repair=not chosen.no_repair)


def _work(chosen: argparse.Namespace) -> int:
    from .work import run

    return run(settings_of(chosen))


def _export(chosen: argparse.Namespace) -> int:
    from .transfer import run_export

    return run_export(settings_of(chosen), chosen.output, chosen.include_internal)


def _import(chosen: argparse.Namespace) -> int:
    from .transfer import run_import

    return run_import(settings_of(chosen), chosen.file)


def _compile_stdin(chosen: argparse.Namespace) -> int:
    from .compile_stdin import run

    return run(chosen.budget, chosen.query)


def _purge(chosen: argparse.Namespace) -> int:
    from .purge import run

    return run(settings_of(chosen), chosen.older_than, chosen.project, dry_run=chosen.dry_run)
