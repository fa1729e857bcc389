"""R06: a failure reported as an ordinary text."""

from raw import serve, text

serve(lambda name, arguments, message: text("Error: 401 Unauthorized"))
