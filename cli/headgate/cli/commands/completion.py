"""`headgate completion`: what a shell needs to complete commands, options and names."""

import os
import subprocess
import sys
from typing import Annotated, Literal

import typer

from headgate.cli.failure import Failure
from headgate.cli.output.printing import print_line

COMPLETION_EPILOG = """[bold]Examples[/bold]

source <(headgate completion bash)                                 (in ~/.bashrc)

headgate completion zsh > ~/.zfunc/_headgate                       (a folder of fpath)

source <(headgate completion zsh)                                  (or in ~/.zshrc)

headgate completion fish > ~/.config/fish/completions/headgate.fish"""

_REGISTER = "compdef _headgate_completion headgate"
"""The last line of the library's script for zsh."""

_COMPLETE_OR_REGISTER = f"""if [[ $funcstack[1] == _headgate ]]; then
  _headgate_completion "$@"
else
  {_REGISTER}
fi"""
"""Where zsh loads the script from a folder of fpath, it does so at the first Tab, and
calls it then: who only registers leaves that Tab without an answer."""


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(show_default=False)
    ],
) -> None:
    """Print the script that lets a shell complete commands, options and groups."""
    environment = {**os.environ, "_HEADGATE_COMPLETE": f"source_{shell}"}
    # The library prints its scripts for a process that is started so, else never.
    command = [sys.executable, "-m", "headgate.cli"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    if not done.stdout:
        raise Failure(f"no script for {shell}: {done.stderr}")
    print_line(done.stdout.strip().replace(_REGISTER, _COMPLETE_OR_REGISTER))
