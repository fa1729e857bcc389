"""Replies come wrapped in an array, a batch, which current revisions do not have; the call ends by a plain one."""

from raw import echo, send, serve


def call(name, arguments, message):
    send([{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "in a batch"}}])
    return echo(name, arguments, message)


serve(call)
