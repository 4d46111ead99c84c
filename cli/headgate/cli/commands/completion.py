"""`headgate completion`: a script that completes commands and group names."""

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
"""zsh loads the script from a folder of fpath at the first Tab and calls it at once; a
script that only registered itself would leave that Tab unanswered."""


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(show_default=False)
    ],
) -> None:
    """Print the script that lets a shell complete commands, options and groups."""
    environment = {**os.environ, "_HEADGATE_COMPLETE": f"source_{shell}"}
    # typer prints its scripts only in a process that is started like this.
    command = [sys.executable, "-m", "headgate.cli"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    if not done.stdout:
        raise Failure(f"there is no completion script for {shell}: {done.stderr}")
    print_line(done.stdout.strip().replace(_REGISTER, _COMPLETE_OR_REGISTER))
