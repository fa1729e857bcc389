"""Ours: what is no regular file is refused at once."""

import os

import pytest

from harness.model.regular import read_regular


def test_a_file_is_read_up_to_the_limit_also_through_a_link(tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "file", 100) == b"0123456789"
    assert read_regular(tmp_path / "link", 4) == b"0123"


def test_a_pipe_a_device_a_folder_and_nothing_are_errors_and_no_wait(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, words in (("pipe", "no regular file"), ("zero", "no regular file"), (".", "directory"), ("x", "No such")):
        with pytest.raises(OSError, match=words):
            read_regular(tmp_path / name, 100)
    with pytest.raises(ValueError, match="null"):
        read_regular(tmp_path / "\0", 100)
