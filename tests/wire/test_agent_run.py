"""One agent at work over stdio, in two processes: what the first one set aside and wrote down, the second takes up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wire.client import Server

PROJECT, SESSION = "billing", "export-timeout"


def first_session(store: Path) -> tuple[str, str, dict[str, Any]]:
    """Remember, compile, set aside, fetch back, save; the handle, the original behind it, and the saved state."""
    with Server(store) as server:
        server.initialize()
        cause = server.call("remember", fact="the rate service allows 50 requests a second")
        decision = server.call(
            "remember",
            fact="the export asks for rates in one request",
            metadata={"project": PROJECT},
            links=[{"target": cause["id_str"], "relation": "because"}],
        )
        listing = "\n\n".join(f"Invoice {number} has {number % 7} lines." for number in range(400))
        compiled = server.call(
            "compile_context",
            query="why does the export ask for rates in one request",
            fragments=[
                {"content": "Never change the totals.", "metadata": {"cache": True}},
                {"content": listing},
            ],
            token_budget=120,
            project=PROJECT,
            memory_scope={"project": PROJECT, "k": 2},
            policy={"ids_as_strings": True},
        )
        assert compiled["content"].startswith("Never change the totals.")
        assert "the export asks for rates in one request" in compiled["content"]
        pulled = [entry for entry in compiled["decisions"] if "memory_id" in entry]
        assert [entry["memory_id"] for entry in pulled] == [decision["id_str"]]
        aside = compiled["decisions"][1]
        assert server.call("retrieve_context_source", handle=aside["handle"])["content"] == listing
        explained = server.call(
            "explain_compilation",
            request={
                "query": "rates",
                "fragments": [{"content": listing}],
                "token_budget": 120,
                "policy": {"ids_as_strings": True},
            },
            fragment_id=aside["fragment_id"],
        )
        assert explained["fragment_id"] == aside["fragment_id"]
        working = {
            "goal": "make the export fast",
            "active_constraints": [{"text": "Never change the totals.", "source": "finance"}],
            "decisions": [{"fragment_id": aside["fragment_id"], "rule_id": aside["rule_id"]}],
            "exact_evidence": [
                {"fragment_id": aside["fragment_id"], "handle": aside["handle"], "memory_id": decision["id_str"]}
            ],
            "pending_actions": ["open the pull request"],
        }
        server.call("save_working_context", project=PROJECT, session=SESSION, working=working)
        return aside["handle"], listing, working


def test_a_second_process_takes_up_where_the_first_one_stopped(tmp_path: Path) -> None:
    handle, original, saved = first_session(tmp_path)
    with Server(tmp_path) as server:
        server.initialize()
        sessions = server.call("list_working_contexts", project=PROJECT)["sessions"]
        assert [entry["session"] for entry in sessions] == [SESSION]
        missed = server.call("load_working_context", project=PROJECT, session="export-timeouts")
        assert (missed["found"], missed["working"]) == (False, None)
        assert [entry["session"] for entry in missed["other_sessions"]] == [SESSION]
        loaded = server.call("load_working_context", project=PROJECT, session=SESSION)
        assert loaded["found"] and loaded["other_sessions"] == []
        working = loaded["working"]
        assert {key: working[key] for key in saved} == saved
        evidence = working["exact_evidence"][0]
        assert server.call("retrieve_context_source", handle=evidence["handle"])["content"] == original
        assert handle == evidence["handle"]
        # what was loaded can be saved as it is
        working["pending_actions"] = []
        server.call("save_working_context", project=PROJECT, session=SESSION, working=working)
        savings = server.call("context_savings", project=PROJECT)
        assert savings["events"] == 1 and savings["tokens_saved"] > 0
        reached = server.call("why", decision="why does the export ask for rates in one request")
        assert "the rate service allows 50 requests a second" in [node["content"] for node in reached["nodes"]]
