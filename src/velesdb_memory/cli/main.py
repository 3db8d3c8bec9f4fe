"""The command ``velesdb-memory``: a stdio MCP server by default, and commands for people."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ..errors import VelesMemoryError
from ..limits import DEFAULT_STDIN_BUDGET
from ..settings import EMBEDDERS
from ..text import shown
from .options import Parser, add_settings, flags_of, only_in_environment, settings_later, settings_of

Run = Callable[[argparse.Namespace], int]
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Parser]  # pyright: ignore[reportPrivateUsage]

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


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


def _parser() -> Parser:
    parser = Parser(
        prog="velesdb-memory",
        usage="%(prog)s [SETTING ...] [COMMAND ...]",
        description="Durable, explainable memory for AI agents, on your own disk. Without a command: an MCP server on "
        "standard input and output.",
        epilog=only_in_environment(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", "-V", action="version", version=f"velesdb-memory {_version()}")
    parser.set_defaults(run=_serve)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", prog="velesdb-memory")

    demo = _command(commands, "demo", "show a memory at work: a real session with a server of its own", _demo)
    demo.add_argument("--keep", action="store_true", help="keep the demo's store and print where it is")

    doctor = _command(commands, "doctor", "check the store, and rebuild what is derived where it is damaged", _doctor)
    doctor.add_argument("--no-repair", action="store_true", help="only look")
    settings_later(doctor, "PATH")

    export = _command(commands, "export", "write everything to JSON lines", _export)
    export.add_argument("--output", "-o", metavar="FILE", help="the file to write (default: standard output)")
    export.add_argument("--include-internal", action="store_true", help="entities and other internal records too")
    settings_later(export, "PATH")

    show = _command(commands, "config", "print the settings in effect, and where each comes from", _config)
    settings_later(show, "PATH", "CONFIG")

    connect = _command(commands, "connect", "put this server into the configuration of an MCP client", _connect)
    connect.later = partial(_add_connect, connect)

    service = _command(commands, "service", "have the system keep the daemon (--http) running for you", _service_status)
    actions = service.add_subparsers(title="actions", metavar="ACTION", required=True)
    install = _command(actions, "install", "install and start it, with the settings in effect", _service_install)
    install.add_argument("--print", action="store_true", dest="only_print", help="show the definition, change nothing")
    settings_later(install, "PATH", "HTTP_BIND", "HTTP_PORT", "TLS_DIR", "LOG")
    settings_later(_command(actions, "status", "whether it runs, and answers", _service_status), "PATH", "HTTP_PORT")
    _command(actions, "uninstall", "stop it and remove it; the store stays", _service_uninstall)

    authority = _command(commands, "ca", "the daemon's own certificate authority", _ca_trust)
    actions = authority.add_subparsers(title="actions", metavar="ACTION", required=True)
    trust = _command(actions, "trust", "how to have this system trust it", _ca_trust)
    trust.add_argument("--apply", action="store_true", help="do it, instead of printing how")
    settings_later(trust, "TLS_DIR")

    migrate = _command(
        commands, "migrate-embeddings", "embed everything anew with another model, while the store is in use", _migrate
    )
    migrate.add_argument(
        "--to", metavar="BACKEND", choices=EMBEDDERS, help="the embedder to change to (default: the one set)"
    )
    migrate.add_argument("--pause-budget", metavar="MS", type=int, help="how long the switch may make writers wait")
    instead = migrate.add_mutually_exclusive_group()
    instead.add_argument("--dry-run", action="store_true", help="only estimate what it would take")
    instead.add_argument("--recover", action="store_true", help="go on with a migration that has stopped")
    instead.add_argument("--cancel", action="store_true", help="give the migration up")
    instead.add_argument("--drop-old", action="store_true", help="remove the vectors that the last one replaced")
    settings_later(migrate, "PATH")

    work = _command(commands, "work", "read waiting passages and facts now, in the foreground", _work)
    settings_later(work, "PATH")

    load = _command(commands, "import", "read an export, or the MCP memory server's file", _import)
    load.add_argument("file", metavar="FILE", help="the file to read; - for standard input")
    settings_later(load, "PATH")

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
    settings_later(purge, "PATH")

    token = _command(commands, "token", "say who may use the daemon (--http)", _token_list)
    actions = token.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = _command(actions, "create", "make a token and print it, once", _token_create)
    create.add_argument("name", metavar="NAME", help="who or what it is for")
    create.add_argument("--read-only", action="store_true", help="a token that may not write")
    settings_later(create, "PATH")
    settings_later(_command(actions, "list", "the names of the tokens", _token_list), "PATH")
    revoke = _command(actions, "revoke", "end a token, at once", _token_revoke)
    revoke.add_argument("name", metavar="NAME")
    settings_later(revoke, "PATH")

    settings_later(parser)
    return parser


def _add_connect(connect: Parser) -> None:
    from ..clients.registry import CLIENTS

    connect.description = (
        "Shows the change, asks, keeps a backup, and touches nothing but its own entry. The settings of this call and "
        "of the environment go into the entry, secrets excepted; with --http or --url the client is to reach a server "
        "that runs already."
    )
    connect.add_argument("client", choices=CLIENTS, metavar="CLIENT", help=", ".join(CLIENTS))
    connect.add_argument(
        "--scope", choices=("user", "project"), default="user", help="for you (default) or for this project"
    )
    connect.add_argument("--file", metavar="FILE", help="the file to change, instead of the usual one")
    connect.add_argument("--name", default="velesdb-memory", help="the name of the entry (default: velesdb-memory)")
    connect.add_argument("--url", help="where a server runs (with --http: where this one would)")
    connect.add_argument("--undo", action="store_true", help="take the entry out again")
    connect.add_argument("--print", action="store_true", dest="only_print", help="show the change and write nothing")
    connect.add_argument("--yes", "-y", action="store_true", help="do not ask")
    add_settings(connect, "PATH", "HTTP")


def _command(
    commands: Commands,
    name: str,
    summary: str,
    run: Run,
) -> Parser:
    parser = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
    parser.set_defaults(run=run)
    return parser


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


def _config(chosen: argparse.Namespace) -> int:
    from .configuration import run

    return run(flags_of(chosen))


def _connect(chosen: argparse.Namespace) -> int:
    from .connect import Request, run

    names = ("client", "scope", "file", "name", "url", "undo", "only_print", "yes")
    return run(Request(**{name: getattr(chosen, name) for name in names}), flags_of(chosen))


def _service_install(chosen: argparse.Namespace) -> int:
    from .daemon import run_install

    return run_install(flags_of(chosen), only_print=chosen.only_print)


def _service_status(chosen: argparse.Namespace) -> int:
    from .daemon import run_status

    return run_status(flags_of(chosen))


def _service_uninstall(_: argparse.Namespace) -> int:
    from .daemon import run_uninstall

    return run_uninstall()


def _ca_trust(chosen: argparse.Namespace) -> int:
    from .authority import run_trust

    return run_trust(flags_of(chosen), apply=chosen.apply)


def _migrate(chosen: argparse.Namespace) -> int:
    from .migrate import Order, run

    return run(
        settings_of(chosen),
        Order(chosen.to, chosen.dry_run, chosen.cancel, chosen.recover, chosen.drop_old, chosen.pause_budget),
    )


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


def _token_create(chosen: argparse.Namespace) -> int:
    from .token import run_create

    return run_create(settings_of(chosen), chosen.name, read_only=chosen.read_only)


def _token_list(chosen: argparse.Namespace) -> int:
    from .token import run_list

    return run_list(settings_of(chosen))


def _token_revoke(chosen: argparse.Namespace) -> int:
    from .token import run_revoke

    return run_revoke(settings_of(chosen), chosen.name)
