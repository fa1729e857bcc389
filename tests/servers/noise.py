"""S03: dozens of plain lines between valid replies."""

from raw import serve, write


def on(message):
    for number in range(12):
        write(b"INFO handling message, line %d\n" % number)


serve(on=on)
