"""The folder of a run: written by every engine, read by the report. Needs no torch to import."""

from unstale.run_folder.environment import describe_environment
from unstale.run_folder.folder import RunFolder, latest_folder, next_folder
from unstale.run_folder.keep import keep_run
from unstale.run_folder.lines import Lines
from unstale.run_folder.schema import Round
from unstale.run_folder.summary import for_programs, summarise, write_summary
from unstale.run_folder.surrogates import SurrogateSamples, write_surrogates

__all__ = [
    "Lines",
    "Round",
    "RunFolder",
    "SurrogateSamples",
    "describe_environment",
    "for_programs",
    "keep_run",
    "latest_folder",
    "next_folder",
    "summarise",
    "write_summary",
    "write_surrogates",
]
