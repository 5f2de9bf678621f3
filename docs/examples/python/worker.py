#!/usr/bin/env python3
"""worker.py QUEUE: a worker made with psycopg 3.

The connection comes from the usual PG* variables.  SIGTERM and SIGINT end it
after the message in hand; what it has leased and not begun goes back.
"""

import signal
import sys
import threading

import psycopg
from psycopg.rows import namedtuple_row

BATCH = 10
IDLE_SECONDS = 1.0
RECONNECT_SECONDS = 5.0

stop = threading.Event()


class Poison(Exception):
    """The message will never work; retrying is of no use."""


def ship(connection, message):
    """The work: everything it writes is in the caller's transaction."""
    if not isinstance(message.payload, dict) or "order" not in message.payload:
        raise Poison("the payload names no order")
    headers = message.headers or {}
    connection.execute(
        "INSERT INTO shipment (order_id, traceparent) VALUES (%s, %s)",
        (int(message.payload["order"]), headers.get("traceparent")),
    )


def handle(connection, message):
    """One message: done and acknowledged in one transaction, or given back."""
    try:
        with connection.transaction() as transaction:
            first = connection.execute(
                "SELECT queue_state.process_once('shipping', %s)", (message.id,)
            ).fetchone()[0]
            if first:
                ship(connection, message)
            held = connection.execute(
                "SELECT queue_state.acknowledge(%s, %s)",
                (message.id, message.receipt_handle),
            ).fetchone()[0]
            if not held:
                # The lease ended during the work: it is somebody else's now.
                raise psycopg.Rollback(transaction)
        print("shipped" if held else "late", message.id, message.headers, flush=True)
    except Poison as error:
        connection.execute(
            "SELECT queue_state.reject(%s, %s, %s)",
            (message.id, message.receipt_handle, str(error)),
        )
        print("rejected", message.id, flush=True)
    except psycopg.OperationalError:
        # The connection is gone, and the lease will elapse by itself.
        raise
    except Exception as error:
        connection.execute(
            "SELECT queue_state.nack(%s, %s, error => %s)",
            (message.id, message.receipt_handle, str(error)),
        )
        print("given back", message.id, flush=True)


def work(connection, queue):
    while not stop.is_set():
        messages = connection.execute(
            "SELECT * FROM queue_state.dequeue(%s, %s)", (queue, BATCH)
        ).fetchall()
        for position, message in enumerate(messages):
            if stop.is_set():
                give_back(connection, messages[position:])
                return
            handle(connection, message)
        if not messages:
            stop.wait(IDLE_SECONDS)


def give_back(connection, messages):
    """Leased and not begun: somebody else can have them at once."""
    for message in messages:
        connection.execute(
            "SELECT queue_state.nack(%s, %s, delay => '0 seconds')",
            (message.id, message.receipt_handle),
        )


def main():
    queue = sys.argv[1]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    while not stop.is_set():
        try:
            # autocommit: a transaction is what connection.transaction() makes.
            with psycopg.connect(autocommit=True, row_factory=namedtuple_row) as connection:
                work(connection, queue)
        except psycopg.OperationalError as error:
            print("no connection:", error, file=sys.stderr, flush=True)
            stop.wait(RECONNECT_SECONDS)
    print("stopped", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: worker.py QUEUE")
    main()
