"""The run store: folders, metrics, manifests, tidy tables."""

from lt2theory.runs.atomic import DiskFullError as DiskFullError
from lt2theory.runs.atomic import read_json as read_json
from lt2theory.runs.atomic import write_bytes as write_bytes
from lt2theory.runs.atomic import write_json as write_json
from lt2theory.runs.atomic import write_text as write_text
from lt2theory.runs.hashing import canonical_json as canonical_json
from lt2theory.runs.hashing import config_hash as config_hash
from lt2theory.runs.layout import RunStatus as RunStatus
from lt2theory.runs.layout import run_status as run_status
from lt2theory.runs.progress import Progress as Progress
from lt2theory.runs.progress import ProgressEvent as ProgressEvent
from lt2theory.runs.progress import TerminalProgress as TerminalProgress
from lt2theory.runs.store import RunFolder as RunFolder
from lt2theory.runs.study import Study as Study
from lt2theory.runs.study import StudyError as StudyError
from lt2theory.runs.study import StudyRun as StudyRun
from lt2theory.runs.study import run_study as run_study
from lt2theory.runs.study import study_run as study_run
from lt2theory.runs.study import threads_for as threads_for
from lt2theory.runs.tables import COLUMNS as COLUMNS
from lt2theory.runs.tables import collect as collect
from lt2theory.runs.tables import config_table as config_table
from lt2theory.runs.tables import read_table as read_table
from lt2theory.runs.tables import run_table as run_table
from lt2theory.runs.tables import write_table as write_table
