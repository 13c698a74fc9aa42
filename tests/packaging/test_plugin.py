"""The plugin that an agent installs names what this repository holds."""

import json
from pathlib import Path

import pytest

from kernelkb import __version__

ROOT = Path(__file__).parents[2]


def read_manifest(name):
    return json.loads((ROOT / ".claude-plugin" / name).read_text())


def test_the_plugin_has_the_version_of_the_package():
    assert read_manifest("plugin.json")["version"] == __version__


def test_the_marketplace_offers_the_plugin_of_this_folder():
    (offered,) = read_manifest("marketplace.json")["plugins"]

    assert offered["name"] == read_manifest("plugin.json")["name"]
    assert offered["source"] == "./"


@pytest.mark.parametrize("server", read_manifest("plugin.json")["mcpServers"].values())
def test_the_plugin_starts_a_command_that_the_package_installs(server):
    scripts = (ROOT / "pyproject.toml").read_text().partition("[project.scripts]")[2]

    assert f"\n{server['command']} = " in scripts


def test_the_plugin_brings_the_skill():
    assert (ROOT / "skills" / read_manifest("plugin.json")["name"] / "SKILL.md").exists()
