"""R11: tools/list answers with an error, though initialize went well."""

from raw import refuse, serve

serve(
    on=lambda message: (
        message.get("method") == "tools/list" and (refuse(message, -32603, "cannot make a schema") or True)
    )
)
