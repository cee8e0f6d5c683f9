#!/usr/bin/env python3
"""A whole Core in one file, as far as david-tasks can see it: submits, cancels, answers, and brings results home.

It keeps tables of its own (SQLite here, for whatever Core uses) and relays to the Postgres of david-tasks:
topology (b) of docs/core-contract.md. In topology (a) the same calls stand in Core's own transactions, and
`bring_home` is not needed.

    pip install 'psycopg[binary]'
    DATABASE_URL=postgres://… MCP_URL=http://127.0.0.1:8765/mcp python core_contract.py

wants a running worker and the sample server (docs/by-hand.md). Every step may be killed and run again.
"""

import json
import os
import secrets
import sqlite3
import string
import sys
import time

import psycopg

# Not in this database any more, or ended, or used before: nothing that a repetition would change.
BAD_ARGUMENTS, USED_BEFORE, UNKNOWN, TOO_LATE = "DT001", "DT002", "DT003", "DT004"
# Deadlock and serialisation failure: the transaction is rolled back, and simply made again.
TRY_AGAIN = ("40P01", "40001")


class Relay:
    """The connection to david-tasks. Each call is a transaction of its own and may be repeated."""

    def __init__(self, url):
        # The login only has to be a member of david_core.
        self.connection = psycopg.connect(url, autocommit=True, options="-c role=david_core")

    def call(self, statement, parameters=()):
        for attempt in range(5):
            try:
                return self.connection.execute(statement, parameters).fetchall()
            except psycopg.Error as error:
                if error.sqlstate not in TRY_AGAIN or attempt == 4:
                    raise
                time.sleep(0.05 * 2**attempt)

    def register(self, registration, owner, url):
        self.connection.execute(
            """insert into david.mcp_server_registrations (id, owner_id, name, url, normalized_url, identity_key)
               values (%s, %s, %s, %s, %s, %s) on conflict do nothing""",
            (registration, owner, registration, url, url, registration),
        )

    def submit(self, run, user, action, registration, tool, arguments, tool_call):
        with self.connection.transaction():
            self.connection.execute(
                "insert into david.runs (id, user_id, status) values (%s, %s, 'pending_action') on conflict (id) do nothing",
                (run, user),
            )
            self.call(
                """select david.submit_action(
                       p_action_id => %s, p_run_id => %s, p_registration_id => %s, p_tool_name => %s,
                       p_remote_tool_name => %s, p_arguments => %s::json, p_tool_call_id => %s,
                       p_deadline_in => interval '2 hours')""",
                (action, run, registration, tool, tool, json.dumps(arguments), tool_call),
            )

    def cancel(self, run):
        return self.call("select david.cancel_run(%s)", (run,))[0][0]

    def questions(self, user):
        return self.call(
            "select action_id, key, request from david.v_input_required where user_id = %s and state = 'pending'", (user,)
        )

    def answer(self, action, key, response):
        try:
            return self.call("select david.answer_input(%s, %s, %s::json)", (action, key, json.dumps(response)))[0][0]
        except psycopg.Error as error:
            if error.sqlstate in (USED_BEFORE, UNKNOWN, TOO_LATE):
                return False  # Somebody else answered, or the question is not asked any more.
            raise

    def take(self, limit=100):
        return self.call(
            "select action_id, run_id, message_id, is_error, envelope::text, run_cancelled from david.take_outputs(%s, interval '1 minute')",
            (limit,),
        )

    def acknowledge(self, actions):
        return self.call("select david.ack_outputs(%s::varchar[])", (actions,))[0][0]


class Core:
    """Core's own side: its tables, and what still has to be relayed."""

    def __init__(self, path=":memory:"):
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.executescript(
            """create table if not exists runs (id text primary key, user text, cancelled int default 0, cancel_relayed int default 0);
               create table if not exists actions (id text primary key, run text, registration text, tool text, arguments text,
                                                   tool_call text, relayed int default 0);
               create table if not exists messages (id text primary key, run text, tool_call text, content text, is_error int);"""
        )

    def decide_to_call(self, run, user, registration, tool, arguments):
        """The model asked for a tool. Core commits that first; the relay may happen any time later."""
        action = fresh("act_")
        self.db.execute("begin")
        self.db.execute("insert or ignore into runs (id, user) values (?, ?)", (run, user))
        self.db.execute(
            "insert into actions (id, run, registration, tool, arguments, tool_call) values (?, ?, ?, ?, ?, ?)",
            (action, run, registration, tool, json.dumps(arguments), "call_" + secrets.token_hex(4)),
        )
        self.db.execute("commit")
        return action

    def decide_to_cancel(self, run):
        self.db.execute("update runs set cancelled = 1 where id = ?", (run,))

    def relay(self, relay):
        """What is committed here and not there yet. Killed between the two, it is sent once more, which is no error."""
        rows = self.db.execute(
            """select a.id, a.run, r.user, a.registration, a.tool, a.arguments, a.tool_call
                 from actions a join runs r on r.id = a.run where not a.relayed"""
        ).fetchall()
        for action, run, user, registration, tool, arguments, tool_call in rows:
            relay.submit(run, user, action, registration, tool, json.loads(arguments), tool_call)
            self.db.execute("update actions set relayed = 1 where id = ?", (action,))
        for (run,) in self.db.execute("select id from runs where cancelled and not cancel_relayed").fetchall():
            try:
                relay.cancel(run)
            except psycopg.Error as error:
                if error.sqlstate != UNKNOWN:  # Never submitted: nothing to cancel there.
                    raise
            self.db.execute("update runs set cancel_relayed = 1 where id = ?", (run,))

    def bring_home(self, relay):
        """Writes results down, each once, and only then acknowledges. Killed in between, they come again."""
        taken = relay.take()
        for action, run, message, is_error, envelope, _run_cancelled in taken:
            self.db.execute("begin immediate")
            # Core's own word on its own Run, under its own lock: a cancelled Run gets no message.
            (cancelled,) = self.db.execute("select cancelled from runs where id = ?", (run,)).fetchone()
            if not cancelled:
                self.db.execute(
                    "insert or ignore into messages (id, run, tool_call, content, is_error) values (?, ?, ?, ?, ?)",
                    (message, run, json.loads(envelope)["tool_call_id"], content_of(json.loads(envelope)), is_error),
                )
            self.db.execute("commit")
        if taken:
            relay.acknowledge([row[0] for row in taken])
        return len(taken)


def content_of(envelope):
    """What the model reads: text blocks, else the error's sentence. Never empty."""
    if envelope["version"] != 1:
        raise ValueError(f"an envelope of version {envelope['version']} is not understood")
    text = "\n".join(block["text"] for block in envelope["content"] if block.get("type") == "text")
    return text or (envelope["error"] or {}).get("message") or "The tool returned nothing."


def fresh(prefix):
    return prefix + "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(22))


def main():
    relay, core = Relay(os.environ["DATABASE_URL"]), Core()
    user, registration = fresh("user_"), fresh("reg_")
    relay.register(registration, user, os.environ["MCP_URL"])

    worked, asked, dropped = fresh("run_"), fresh("run_"), fresh("run_")
    core.decide_to_call(worked, user, registration, "work", {"seconds": 0, "text": "forty-two"})
    core.decide_to_call(asked, user, registration, "ask", {"question": "Which year?"})
    core.decide_to_call(dropped, user, registration, "work", {"seconds": 600})
    core.relay(relay)
    core.relay(relay)  # As after a crash.
    core.db.execute("update actions set relayed = 0")
    core.relay(relay)  # As after a crash at the worst moment: the same again is no error.
    core.decide_to_cancel(dropped)
    core.relay(relay)

    until = time.monotonic() + 60
    while core.db.execute("select count(*) from messages").fetchone()[0] < 2:
        for action, key, request in relay.questions(user):
            print("asked:", request["params"]["message"])
            relay.answer(action, key, {"action": "accept", "content": {"answer": "2026"}})
        if core.bring_home(relay) == 0:
            time.sleep(0.1)
        if time.monotonic() > until:
            sys.exit("no result within a minute: is a worker running, and the sample server?")

    # What makes no sense has a SQLSTATE to tell it by and a message for people.
    for statement, expected in [
        ("select david.submit_action('no prefix', %s, 'r', 't', 't')", BAD_ARGUMENTS),
        ("select david.submit_action('act_x', 'run_unknown' || %s, 'r', 't', 't')", UNKNOWN),
        ("select david.cancel_run('unknown' || %s)", UNKNOWN),
    ]:
        try:
            relay.call(statement, (worked,))
            sys.exit(f"not refused: {statement}")
        except psycopg.Error as error:
            if error.sqlstate != expected:
                raise

    for run, content, is_error in core.db.execute("select run, content, is_error from messages order by content"):
        print("result:", {worked: "work", asked: "ask", dropped: "dropped"}[run], "error" if is_error else "ok", content)
    status = relay.call("select status from david.actions where run_id = %s", (dropped,))[0][0]
    print("dropped:", status)


if __name__ == "__main__":
    main()
