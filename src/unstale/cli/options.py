"""What all commands share."""

from typing import Any

# Given to every command and not only to the group: click remembers a command's help option
# from the first context it meets, which need not be the group's.
HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
