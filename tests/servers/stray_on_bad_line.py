"""S21: says on stdout, in plain text, that a line is no JSON."""

from raw import serve, write

serve(bad=lambda line: write(b"Traceback: not JSON\n"))
