"""The verb ``completion``: makes the file with which a shell completes command lines (shtab)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import shtab

from ..cli.parser import BASIC, TESTS, build_parser
from ..lab.simulated.preset import preset_names
from ..profiles.reader import builtin_profiles
from ..spec.reader import read_specification, spec_values
from .pages import page_paths

_TARGETS = {"bash": "_snia_pts_targets", "zsh": "_snia_pts_targets", "fish": "(_snia_pts_targets)"}
#: The completion of an argument's value, by its metavar.
_PATHS = {
    "CAMPAIGN": shtab.FILE,
    "DIR": shtab.DIRECTORY,
    "FILE": shtab.FILE,
    "RUN": shtab.DIRECTORY,
    "TARGET": _TARGETS,
}
_DRIVES = "ls /sys/block 2>/dev/null | sed -nE '/^(fd|loop|ram|sr|zram)[0-9]/!s,^,/dev/,p'"
#: The function that lists targets: drives, simulated drives and files.
_PREAMBLES = {
    "bash": """_snia_pts_targets() {{
  compgen -W "$({drives}) {presets}" -- "$1"
  compgen -f -- "$1"
}}""",
    "zsh": """_snia_pts_targets() {{
  local -a targets=(${{(f)"$({drives})"}} {presets})
  compadd -a targets
  _files
}}""",
    "fish": """function _snia_pts_targets
  {drives}
  printf '%s\\n' {presets}
  __fish_complete_path (commandline -ct)
end""",
}
#: bash divides words at colons; shtab expects whole words.  No space follows the key of KEY=VALUE.
_BASH_END = """
_snia_pts() {
  local -a words=()
  local index cword=0
  for ((index = 0; index < ${#COMP_WORDS[@]}; index++)); do
    if ((index > 1)) && [[ ${COMP_WORDS[index]} == :* || ${COMP_WORDS[index - 1]} == *: ]]; then
      words[-1]+=${COMP_WORDS[index]}
    else
      words+=("${COMP_WORDS[index]}")
    fi
    ((index != COMP_CWORD)) || cword=$((${#words[@]} - 1))
  done
  local word=${words[cword]} COMP_CWORD=$cword
  local -a COMP_WORDS=("${words[@]}")
  _shtab_snia_pts
  COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
  [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null || :
}
complete -o bashdefault -F _snia_pts snia-pts
"""


def completion(arguments: argparse.Namespace) -> int:
    """Print the completion file of a shell."""
    print(completion_file(arguments.shell), end="")
    return 0


def completion_file(shell: str) -> str:
    """Return the completion file of ``shell``: bash, zsh or fish."""
    parser = build_parser()
    _complete(parser, ())
    presets = " ".join(f"sim:{name}" for name in preset_names())
    preamble = _PREAMBLES[shell].format(drives=_DRIVES, presets=presets)
    text = shtab.complete(parser, shell, preamble=preamble)
    return f"{text.rstrip()}\n{_BASH_END if shell == 'bash' else ''}"


def _complete(parser: argparse.ArgumentParser, verbs: tuple[str, ...]) -> None:
    """Tell shtab the accepted values, for each argument of a verb and, recursively, of its subcommands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                _complete(inner, (*verbs, name))
        elif action.choices is None and (path := _PATHS.get(f"{action.metavar}")):
            action.complete = path  # type: ignore[attr-defined]  # shtab reads it
        elif action.choices is None and (values := [*_values(f"{action.metavar}", verbs)]):
            action.choices = values


def _values(metavar: str, verbs: tuple[str, ...]) -> Iterator[str]:
    """Yield the values of an argument that is not a path."""
    match metavar, verbs:
        case "PAGE", _:
            yield from page_paths()
        case "PRESET", _:
            yield from preset_names()
        case "TEST", ("spec", _):
            yield from TESTS
        case "NAME" | "NAME[,NAME...]", ("profile", "show" | "run") if metavar != "NAME" or verbs[1] == "show":
            yield from builtin_profiles()
        case "KEY=VALUE", (test,) if test in TESTS:
            yield from _keys(test)
        case "TEST.KEY=VALUE", _:
            yield from (f"{test}.{key}" for test in BASIC for key in _keys(test))


def _keys(test: str) -> Iterator[str]:
    spec = read_specification(test, "2.0.2", "enterprise").spec
    yield from (f"{key}=" for key in dict.fromkeys(key for key, _ in spec_values(spec)))
