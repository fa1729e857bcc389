"""How one server for somebody else's code is to be started, and what the client is with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.engine.answers import PLAIN, Answers, Hook
from harness.model.plan import CALL_TIMEOUT_S, START_TIMEOUT_S, Elicit, Era, ProfileSpec

__all__ = ["LiveSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSpec:
    """How a server is started.

    Attributes:
        env: Its whole environment besides the base list.
        ready_env: Its whole environment as the engine of a run that stands gives it; `env` comes on top.
        era: None: whatever it speaks, which is probed.
        tried: Whether the era is only tried: a server that does not speak it is no error, and leaves no transcript.
        elicit: How elicitations are answered, where the profile does not say.
        profile: What the client declares and answers.
        hook: Asked before the profile's answers.
        evidence: The folder of the transcript; None: one that goes when the server is closed.
        began: The run's beginning by `time.monotonic()`; None: now.
        allowed: Every (host, port) to which it may be pointed; `names` are services inside the stack.
        url: Where it is to listen, over HTTP; `${port}` in it, in `argv` and in `env` is a port that is chosen for it.
        headers: Sent with every request to that URL; `${port}` in them, too.
        secrets: To be masked.
    """

    argv: tuple[str, ...]
    name: str = ""
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    ready_env: Mapping[str, str] | None = None
    bin: Path | None = None
    era: Era | None = None
    tried: bool = False
    elicit: Elicit | None = None
    profile: ProfileSpec = PLAIN
    hook: Hook | None = None
    evidence: Path | None = None
    began: float | None = None
    allowed: tuple[tuple[str, int], ...] = ()
    names: tuple[str, ...] = ()
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    own_port: int | None = None
    folders: tuple[Path, ...] = ()
    reads_dotenv: bool = True
    secrets: tuple[str, ...] = ()
    call_timeout_s: float = CALL_TIMEOUT_S
    start_timeout_s: float = START_TIMEOUT_S

    def answers(self) -> Answers:
        """What the client declares and answers, for a new session."""
        profile = self.profile
        if not profile.elicits and (self.elicit is not None or self.hook is not None):
            profile = replace(profile, elicit=self.elicit or "decline")
        return Answers(profile, hook=self.hook)
