"""Environments of servers and builds. Ours."""

import os
import sys

import pytest

from harness.engine.environment import BASE_NAMES, build_environment, own_bin, server_environment


def test_a_server_gets_the_base_list_and_what_was_declared(tmp_path):
    env = server_environment(
        {"A": "1", "LANG": "de_DE.UTF-8"}, home=tmp_path, parent={"PATH": "/usr/bin", "SECRET": "x"}
    )
    assert set(env) == {*BASE_NAMES, "A"}
    assert env["LANG"] == "de_DE.UTF-8"
    assert env["LC_ALL"] == "C.UTF-8"
    assert env["PATH"] == "/usr/bin"


def test_every_folder_of_a_server_is_fresh_and_its_own(tmp_path):
    env = server_environment({}, home=tmp_path, parent={})
    folders = [env[name] for name in env if name.endswith(("HOME", "DIR"))]
    assert len(folders) == 7
    assert all(os.path.isdir(folder) and folder.startswith(f"{tmp_path}{os.sep}") for folder in folders)
    assert len(set(folders)) == 7


def test_programs_of_the_build_come_first_and_ours_do_not_come(tmp_path):
    ours = own_bin()
    path = os.pathsep.join(["/usr/bin", *([f"{ours}/"] if ours else []), "/bin"])
    env = server_environment({}, home=tmp_path, bin=tmp_path / "venv" / "bin", parent={"PATH": path})
    assert env["PATH"].split(os.pathsep) == [f"{tmp_path}/venv/bin", "/usr/bin", "/bin"]


def test_our_own_folder_of_programs_is_known_in_a_venv_only():
    assert (own_bin() is None) == (sys.prefix == sys.base_prefix)


WHERE_TO = [
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
    "UV_SYSTEM_PYTHON",
    "UV_PYTHON",
    "UV_PROJECT_ENVIRONMENT",
]
OTHERS = [
    "VIRTUAL_ENV",
    "VIRTUALENV_SYSTEM_SITE_PACKAGES",
    "PYTHONPATH",
    "PYTHONHOME",
    "CONDA_PREFIX",
    "NOX_CURRENT_SESSION",
    "GIT_DIR",
    "GIT_WORK_TREE",
]
KEPT = [
    "PIP_INDEX_URL",
    "UV_INDEX_URL",
    "SSL_CERT_FILE",
    "HTTPS_PROXY",
    "NO_PROXY",
    "PIP_CACHE_DIR",
    "NPM_CONFIG_REGISTRY",
]


@pytest.mark.parametrize("name", [*WHERE_TO, *OTHERS])
def test_a_build_loses_what_says_where_to_install(tmp_path, name):
    assert name not in build_environment({name: "x", "PATH": "/bin"}, venv=None, home=tmp_path)


@pytest.mark.parametrize("name", [*KEPT, "GIT_SSH_COMMAND", "EDITOR"])
def test_a_build_keeps_what_says_where_from(tmp_path, name):
    assert build_environment({name: "x", "PATH": "/bin"}, venv=None, home=tmp_path)[name] == "x"


def test_a_build_installs_into_its_venv(tmp_path):
    env = build_environment({"PATH": "/bin", "VIRTUAL_ENV": "/mine"}, venv=tmp_path / "venv", home=tmp_path)
    assert env["VIRTUAL_ENV"] == f"{tmp_path}/venv"
    assert env["PATH"] == f"{tmp_path}/venv/bin{os.pathsep}/bin"


@pytest.mark.parametrize("parent", [{}, {"HOME": ""}, {"HOME": "/no/such/folder"}])
def test_a_build_has_a_home_that_can_be_used(tmp_path, parent):
    assert build_environment(parent, venv=None, home=tmp_path)["HOME"] == str(tmp_path)
    assert build_environment({"HOME": "/tmp"}, venv=None, home=tmp_path)["HOME"] == "/tmp"
