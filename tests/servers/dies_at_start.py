"""P08: exits with code 1 at once, with a message on stderr."""

import sys

sys.exit("API_TOKEN is missing")
