"""Frozen evidence: a folder for every check, as the engine writes it, with the findings that it gives.

A change of the format, of a check id or of a message shows here.
"""

import json
from pathlib import Path

import pytest

from harness.model.checks import CHECKS
from harness.model.contract import contract_from_json
from harness.model.plan import ExemptionSpec, Place
from harness.model.transcript import event_to_json, record_to_json

ROOT = Path(__file__).parent / "evidence"
WITH = "with"  # evidence of another run, without which a check has nothing to say
FOLDERS = sorted(path.parent for path in ROOT.rglob("run.json") if path.parent.name != WITH)


def name_of(folder):
    return folder.relative_to(ROOT).as_posix()


def exemptions_of(folder):
    path = folder / "exemptions.json"
    if not path.exists():
        return []
    entries = []
    for item in json.loads(path.read_text(encoding="utf-8")):
        place = Place(**item.pop("place"))
        entries.append(ExemptionSpec(**{**item, "place": place, "problems": tuple(item["problems"])}))
    return entries


def checks_of(folder):
    path = folder / "checks.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else ()


def contract_of(folder):
    path = folder / "contract.json"
    if not path.exists():
        return None
    data = json.loads(path.read_text(encoding="utf-8"))
    return contract_from_json(data, place=Place(file="contract.json"), lines={("tool", "search"): 5})


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_a_folder_gives_its_findings(t, folder):
    found = [t.read_folder(place) for place in (folder, folder / WITH) if (place / "run.json").is_file()]
    judgement = t.judged(
        *found, exemptions=exemptions_of(folder), checks=checks_of(folder), contract=contract_of(folder)
    )
    expected = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    assert [
        {"check": item.check, "severity": item.severity, "tool": item.tool, "message": item.message}
        for item in judgement.findings
    ] == expected
    if name_of(folder) != "good":
        assert name_of(folder) in {item["check"] for item in expected}


def test_every_check_has_a_folder_and_the_good_one_is_silent(t):
    assert {name_of(folder) for folder in FOLDERS} == {"good", *CHECKS}
    assert json.loads((ROOT / "good" / "findings.json").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_what_is_read_is_what_would_be_written(t, folder):
    found = t.read_folder(folder)
    assert json.loads(json.dumps(record_to_json(found.record))) == json.loads(
        (folder / "run.json").read_text(encoding="utf-8")
    )
    client = [] if found.client is None else [found.client]
    for transcript in [*found.transcripts, *client]:
        lines = (folder / transcript.name).read_text(encoding="utf-8").splitlines()
        assert [event_to_json(event) for event in transcript.events] == [json.loads(line) for line in lines]
        assert transcript.complete
