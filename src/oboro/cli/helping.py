"""What `--help` says, in the reader's language. The words of commands and options stay as they are typed."""

from __future__ import annotations

import sys
from typing import Any

from oboro.language import chosen, said

_TITLES = {
    "ARGUMENTS_PANEL_TITLE": "Arguments",
    "OPTIONS_PANEL_TITLE": "Options",
    "COMMANDS_PANEL_TITLE": "Commands",
    "ERRORS_PANEL_TITLE": "Error",
    "DEFAULT_STRING": "[default: {}]",
    "REQUIRED_LONG_STRING": "[required]",
    "ENVVAR_STRING": "[env var: {}]",
}


def in_own_language(command: Any) -> None:
    """Translates the help of a command and of all below it, and the titles around it."""
    other = chosen() != "en"
    if other:
        _translate(command)
    asked = other and ("--help" in sys.argv or len(sys.argv) <= 2)
    if asked or "typer.rich_utils" in sys.modules:  # it takes a while to load: not where nobody will see it
        from typer import rich_utils

        for name, text in _TITLES.items():
            if hasattr(rich_utils, name):
                setattr(rich_utils, name, said(text))


def _translate(command: Any) -> None:
    command.help = "\n\n".join(said(part.strip()) for part in (command.help or "").split("\n\n"))
    command.epilog = said(command.epilog or "")
    if getattr(command, "rich_help_panel", None):
        command.rich_help_panel = said(command.rich_help_panel)
    for one in command.params:
        if getattr(one, "help", None):
            one.help = said(one.help)
    _translate_help_option(command)
    for inner in getattr(command, "commands", {}).values():
        _translate(inner)


def _translate_help_option(command: Any) -> None:
    """The option that every command has is made when it is asked for."""
    made = command.get_help_option

    def translated(context: Any) -> Any:
        option = made(context)
        if option is not None and option.help:
            option.help = said(option.help)
        return option

    command.get_help_option = translated
