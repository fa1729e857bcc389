"""S01: prints a start-up banner to stdout before its first reply."""

from raw import serve, write

write(b"Server running on stdio\n")
serve()
