"""The servers behind the plugin's fixtures: which test gets which process, and what it is told when one fails."""

import os
import re
from pathlib import Path

import pytest

from tests.doors.test_pytest_plugin import ECHO, SERVERS, inner, section  # noqa: F401 - a fixture
