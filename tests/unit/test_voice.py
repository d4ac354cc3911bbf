import json

from tests.unit import voice


def test_no_folder_has_more_marks_of_odd_english_than_before() -> None:
    ceilings = json.loads(voice.CEILINGS.read_text())
    found = voice.counts()
    assert found.keys() == ceilings.keys()
    above = {folder: (count, ceilings[folder]) for folder, count in found.items() if count > ceilings[folder]}
    assert not above, f"(marks, ceiling): {above}; python -m tests.unit.voice FOLDER lists the sentences"
