"""The tools that carry the state of a session over to the next one."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from ...context.model import LoadedWorkingContext, WorkingContext, WorkingContextSession
from ..declare import AnyTool, Host, Tool
from .common import IdNumber, IdText


class SaveWorkingContext(msgspec.Struct, frozen=True):
    project: Annotated[str, Meta(description="The project, 1 to 256 bytes, the same in every session.")]
    session: Annotated[
        str, Meta(description="A stable name of this run, 1 to 256 bytes, e.g. the conversation's id.")
    ]
    working: Annotated[
        WorkingContext, Meta(description="The state: goal, constraints, facts, hypotheses, what is still to be done.")
    ]


class Saved(msgspec.Struct, frozen=True):
    id: IdNumber
    id_str: IdText


def save_working_context(host: Host, args: SaveWorkingContext) -> Saved:
    number = host.service.save_working_context(args.project, args.session, args.working)
    return Saved(number, str(number))


class LoadWorkingContext(msgspec.Struct, frozen=True):
    project: Annotated[str, Meta(description="The project it was saved under.")]
    session: Annotated[str, Meta(description="The session it was saved under.")]


def load_working_context(host: Host, args: LoadWorkingContext) -> LoadedWorkingContext:
    return host.service.load_working_context(args.project, args.session)


class ListWorkingContexts(msgspec.Struct, frozen=True):
    project: Annotated[str, Meta(description="The project whose sessions to list.")]


class Sessions(msgspec.Struct, frozen=True):
    sessions: Annotated[list[WorkingContextSession], Meta(description="The saved sessions, latest save first.")]


def list_working_contexts(host: Host, args: ListWorkingContexts) -> Sessions:
    return Sessions(host.service.list_working_contexts(args.project))


TOOLS: Final[tuple[AnyTool, ...]] = (
    Tool(
        name="save_working_context",
        title="Save the state of a session",
        description="Save what this session has worked out, so that a later one can take it up: the goal, constraints, "
        "verified facts with their sources, open questions, what to do next. Use it when a task is interrupted or the "
        "context is about to be compacted. Saving again replaces the session's earlier state, so send all of it; an "
        "empty state is refused. Ids may be sent back as they were received.",
        arguments=SaveWorkingContext,
        result=Saved,
        handler=save_working_context,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="load_working_context",
        title="Resume a session",
        description="Get back the state that was saved for a session, as save_working_context takes it. found: false "
        "means that nothing is saved under exactly this pair; then look at other_sessions, where a similar name is "
        "often the one that was meant.",
        arguments=LoadWorkingContext,
        result=LoadedWorkingContext,
        handler=load_working_context,
        read_only=True,
        idempotent=True,
        ids_as_strings=True,
    ),
    Tool(
        name="list_working_contexts",
        title="List sessions to resume",
        description="List the sessions of a project whose state was saved, latest first. Call it at the start of a "
        "session to see whether there is work to take up.",
        arguments=ListWorkingContexts,
        result=Sessions,
        handler=list_working_contexts,
        read_only=True,
        idempotent=True,
    ),
)
