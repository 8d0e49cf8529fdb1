"""Where the runs of a study are carried out: on this machine, a Ray cluster, or by SLURM.

An executor is a class with one method, `carry_out`. What an executor needs besides the base
install is imported when it is used; `pip install 'lt2theory[cluster]'` brings it.
"""

from lt2theory.runs.executors.base import Assignment as Assignment
from lt2theory.runs.executors.base import Ending as Ending
from lt2theory.runs.executors.base import Executor as Executor
from lt2theory.runs.executors.base import RunOne as RunOne
from lt2theory.runs.executors.local import LocalExecutor as LocalExecutor
from lt2theory.runs.executors.local import threads_for as threads_for
from lt2theory.runs.executors.ray import RayExecutor as RayExecutor
from lt2theory.runs.executors.slurm import SlurmExecutor as SlurmExecutor
